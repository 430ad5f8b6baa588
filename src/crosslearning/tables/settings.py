"""The options of a fit, each in one place, for functions, estimators and the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from textwrap import indent, wrap
from typing import Any, TypeVar

from crosslearning.evaluation.metrics import METRICS, names_of

KINDS = ("auto", "regression", "classification")
# Those of the registry, which imports numpy: too slow for a command line that completes a word.
FAMILIES = (
    "auto", "gaussian", "student", "poisson", "negative-binomial", "gamma", "tweedie", "quantile",
    "ordinal",
)  # fmt: skip
BASES = ("auto", "linear", "splines", "boosting")
_WIDTH = 92
F = TypeVar("F", bound=Callable[..., Any])


def option(
    help: str,  # noqa: A002 - what everybody calls it
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] = (),
    check: tuple[Callable[[Any], bool], str] | None = None,
    flag: str | None = None,
) -> Any:
    """Describe an option: a `check` is a test and its rule, a `flag` another name in commands."""
    about = {"help": help, "choices": choices, "check": check, "flag": flag}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """The options of :func:`crosslearning.tables.fit_table`."""

    task: tuple[str, ...] = option(
        "Column of the task (group) that a row belongs to: the school, the shop, the patient. Of "
        "groups within groups several columns, outermost first: the district, the school."
    )
    target: str = option(
        "Column to predict: a number or a class. Strings, booleans and numbers with two distinct "
        "values are classes."
    )
    features: tuple[str, ...] | None = option(
        "Feature columns; by default all that hold numbers, categories or dates, except constants "
        "and row numbers.",
        None,
    )
    numbers: tuple[str, ...] = option("Columns to treat as numbers.", (), flag="number")
    categories: tuple[str, ...] = option(
        "Columns to treat as categories, such as numeric codes.", (), flag="category"
    )
    kind: str = option(f"Kind of target: {', '.join(KINDS)}.", "auto", choices=KINDS)
    family: str = option(
        f"Distribution of a numeric target: {', '.join(FAMILIES)}. The metric poisson-deviance "
        "implies poisson; ordinal is for classes with an order, such as ratings from 1 to 5.",
        "auto",
        choices=FAMILIES,
    )
    quantile: float | None = option(
        "Level of the family quantile, between 0 and 1; 0.5 by default.",
        None,
        check=(lambda value: 0.0 < value < 1.0, "between 0 and 1"),
    )
    epsilon: float = option(
        "Largest distance of a task to the centre, in standard deviations between tasks: 0 is one "
        "pooled model, inf no bound.",
        inf,
        check=(lambda value: value >= 0, "a distance of at least 0 (0 pools, inf is no bound)"),
    )
    metric: str | None = option(
        "Score by which models are compared, and by which one is chosen where none are blended: "
        f"{', '.join(names_of('regression'))} for numbers; "
        f"{', '.join(names_of('classification'))} for classes; {', '.join(names_of('quantile'))} "
        "for quantiles. The first of a kind is the default.",
        None,
        choices=tuple(METRICS),
    )
    weights: str | None = option("Column of row weights.", None)
    time: str | None = option("Column of times: models are scored on later rows.", None)
    group: str | None = option("Column of groups that are held out as a whole.", None)
    folds: int = option("Number of folds.", 5, check=(lambda value: value >= 2, "at least 2"))
    base: str = option(
        "What is tried besides linear models: splines, boosting (boosted trees and, for "
        "classes, random forests), linear (no others), or auto (all of these and means of "
        "tasks, where they may help).",
        "auto",
        choices=BASES,
    )
    time_budget: float = option(
        "Seconds, once all rows have been read, after which no further model is tried; fits in "
        "progress are given up.",
        60.0,
        check=(lambda value: value > 0, "a positive number of seconds"),
    )
    drop_unlabelled: bool = option("Drop rows without a task instead of refusing them.", False)
    jobs: int = option(
        "Number of processes that try models; -1 for one per core.",
        1,
        check=(lambda value: value >= 1 or value == -1, "at least 1, or -1 for one per core"),
    )
    seed: int = option("Seed of the folds.", 0, check=(lambda value: value >= 0, "at least 0"))

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, checked(one, getattr(self, one.name)))
        for conflict in (*self._conflicts_of_columns(), *self._conflicts_of_family()):
            raise ValueError(conflict)

    def _conflicts_of_columns(self) -> Iterator[str]:
        """Say which columns have two roles."""
        tasks, target = self.task, self.target
        if len(set(tasks)) != max(len(tasks), 1):
            yield f"Option task must name at least one column, each once; got {list(tasks)}."
        if target in tasks:
            yield f"Task and target must be two columns; got {target!r} for both."
        for name in ("time", "group", "weights", "features"):
            value = getattr(self, name)
            columns = value if isinstance(value, tuple) else (value,)
            if taken := [column for column in columns if column in (*tasks, target)]:
                rule = f"Option {name} must not name the task or the target"
                yield f"{rule}; got {taken[0]!r}. Name another column."
        if self.time is not None and self.group is not None:
            both = f"{self.time!r} and {self.group!r}. Choose one of the two."
            yield f"Rows can be held out by time or by group; got {both}"
        for name in sorted(set(self.numbers) & set(self.categories)):
            yield f"A column is a number or a category; got both for {name!r}."

    def _conflicts_of_family(self) -> Iterator[str]:
        """Say which options contradict the family."""
        family = self.family
        if family not in ("auto", "ordinal") and self.kind == "classification":
            yield f"Option family={family} is for numbers, not classes. Omit one of the two."
        if family == "ordinal" and self.kind == "regression":
            yield "Option family=ordinal is for classes, not numbers. Omit one of the two."
        if self.quantile is not None and family != "quantile":
            yield f"Option quantile needs family=quantile; got family={family}."
        if family == "quantile" and (len(self.task) > 1 or self.base == "boosting"):
            yield "Option family=quantile is for one task column, and not for base=boosting."

    @classmethod
    def of(cls, options: dict[str, Any]) -> FitSettings:
        """Take options by name; refuse names that are none, and suggest similar ones."""
        names = [one.name for one in fields(cls)]
        if wrong := [name for name in options if name not in names]:
            near = get_close_matches(wrong[0], names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TypeError(
                f"There is no option {wrong[0]!r}.{hint} Options are {', '.join(names)}."
            )
        if missing := [name for name in ("task", "target") if name not in options]:
            raise TypeError(f"Option {missing[0]} is missing. Pass the name of a column.")
        return cls(**options)

    @property
    def level(self) -> float | None:
        """Level of the quantile to predict; None for means."""
        if self.family != "quantile":
            return None
        return 0.5 if self.quantile is None else self.quantile

    @property
    def single_family(self) -> bool:
        """Whether models of one family are wanted; the Poisson deviance is about means above 0."""
        return self.family != "auto" or self.metric == "poisson-deviance"

    @property
    def target_kind(self) -> str:
        """Kind of target that is wanted, perhaps as the type of its column."""
        if self.family != "auto":
            return "classification" if self.family == "ordinal" else "regression"
        if self.kind != "auto" or self.target not in (*self.numbers, *self.categories):
            return self.kind
        return "regression" if self.target in self.numbers else "classification"

    def python(self, function: str, source: str, held_out: Any, described: str) -> str:
        """Write the lines of Python that repeat a fit of a source by a function."""
        text = f", text={list(self.categories)}" if self.categories else ""
        lines = [f"from crosslearning.tables import {function}", "", f"model = {function}("]
        if function == "fit_table":
            lines[0] += ", read_table"
            lines[2] = f"frame = read_table({source!r}{text})\n{lines[2]}\n    frame,"
        else:
            lines[2] += f"\n    {source!r},"
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                written = repr(list(value) if isinstance(value, tuple) else value)
                written = 'float("inf")' if value == inf else written
                lines.append(f"    {one.name}={written},")
        if hasattr(held_out, "attrs"):  # a data frame
            other = held_out.attrs.get("source", "HOLDOUT")
            lines.append(f"    held_out=read_table({other!r}{text}),")
        elif held_out is not None:
            lines.append(f"    held_out={str(held_out)!r},")
        lines += [")", 'print(model.results["sentence"])']
        return "\n".join([*lines, f"print(model.coefficients)  # of the model: {described}"])


_VALUES: dict[str, tuple[Any, str]] = {
    "str": (str, "a string"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
    "tuple[str, ...]": (tuple, "a list of names"),
}


def checked(one: Field[Any], value: Any) -> Any:
    """Check the type and the value of an option; one name counts as a list, and lists as tuples."""
    name, *optional = str(one.type).split(" | ")
    kind, words = _VALUES[name]
    if kind is tuple and isinstance(value, str | list):
        value = (value,) if isinstance(value, str) else tuple(value)
    if optional and value is None:
        return value
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"Option {one.name} must be {words}; got {value!r}.")
    choices, check = one.metadata["choices"], one.metadata["check"]
    if choices and value not in choices:
        raise ValueError(f"Option {one.name} must be one of {', '.join(choices)}; got {value!r}.")
    if check and not check[0](value):
        raise ValueError(f"Option {one.name} must be {check[1]}; got {value}.")
    return value


def with_options(function: F) -> F:
    """Give a function that takes ``**options`` their signature, and list them in its docstring."""
    plain = inspect.signature(function)
    parameters = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for one in fields(FitSettings):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        how = {"default": default, "annotation": _annotation(one)}
        parameters.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, **how))
    function.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
    return options_listed(function)


def _annotation(one: Field[Any]) -> str:
    return str(one.type).replace("tuple[str, ...]", "str | Sequence[str]")


def options_listed(thing: F) -> F:
    """List the options among the parameters of a function or class in its docstring."""
    parameters, lines = inspect.signature(thing).parameters, []
    for one in fields(FitSettings):
        if one.name in parameters:
            default = "" if one.default is MISSING else f", default={one.default!r}"
            text = "\n".join(wrap(one.metadata["help"], _WIDTH))
            lines.append(f"{one.name} : {_annotation(one)}{default}\n{indent(text, '    ')}\n")
    if thing.__doc__:
        thing.__doc__ = thing.__doc__.replace("    {options}\n", indent("".join(lines), "    "))
    return thing
