"""The folder of a training: settings that its runs share, its networks, a picture of the images."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.datasets import ImageData
from crosslearning.files import replacing, write_json
from crosslearning.images.settings import TrainingSettings

_VERSION = 6  # of the files of runs
_DOMAINS, _CATEGORIES = 12, 8  # of the contact sheet, at most
_SIDE, _GAP, _TEXT = 96, 8, 14  # pixels


def model_file(models: Path, epsilon: float, seed: int) -> Path:
    """File of the networks of a run."""
    return models / f"epsilon-{epsilon!r}-seed-{seed}.safetensors"


def claim(folder: Path, settings: TrainingSettings, data: ImageData) -> None:
    """Record what the runs in the folder share, with a picture, or refuse one of other runs."""
    mine = asdict(settings) | {"images": data.fingerprint, "version": _VERSION}
    for name in ("epsilons", "epsilon_by", "seeds", "baselines"):  # which runs do not share
        del mine[name]
    path, runs = folder / "settings.json", folder / "runs"
    if (folder / "results.json").exists() or any(runs.rglob("*-seed-*.*")):
        if not path.exists():
            raise ValueError(f"{folder} holds results of something else. Choose another folder.")
        stored = json.loads(path.read_text())
        for name, value in mine.items():
            if stored.get(name) != value:
                raise ValueError(
                    f"{folder} holds runs with other settings: {name} is {stored.get(name)!r} "
                    f"there and {value!r} here. Choose another folder."
                )
    else:
        shutil.rmtree(runs, ignore_errors=True)  # of other settings, but nothing was finished
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, mine, indent=2)
    draw_contact_sheet(data, data.pixels(settings.image_size), folder / "contact_sheet.png")


def describe_models(
    models: Path,
    settings: TrainingSettings,
    data: ImageData,
    seed: int,
    statistics: Any,
    n_features: int | None = None,
) -> None:
    """Record what is needed to use a seed's networks."""
    models.mkdir(exist_ok=True)
    about = {name: getattr(settings, name) for name in ("model", "image_size", "backbone")}
    about |= {"features": n_features, "categories": data.categories, "domains": data.domains}
    about |= {"mean": statistics[0].tolist(), "std": statistics[1].tolist()}
    write_json(models / f"seed-{seed}.json", about, indent=2)


def draw_contact_sheet(data: ImageData, pixels: NDArray[np.uint8], path: Path) -> None:
    """Write a PNG with one image per domain and category, for categories that most domains have."""
    from PIL import Image, ImageDraw, ImageFont

    common = data.counts().gt(0).sum(axis=1).to_numpy()
    most = np.flatnonzero(common == common.max())
    # Spread over the alphabet, since neighbours often look alike.
    places = np.linspace(0, len(most) - 1, min(_CATEGORIES, len(most)))
    categories, domains = most[places.round().astype(int)], data.domains[:_DOMAINS]
    font = ImageFont.load_default(_TEXT)
    left = 2 * _GAP + max(round(font.getlength(domain)) for domain in domains)
    step, top = _SIDE + _GAP, 2 * _GAP + _TEXT
    size = left + step * len(categories), top + step * len(domains)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for column, category in enumerate(categories):
        name = data.categories[category].replace("_", " ")
        while font.getlength(name) > _SIDE:
            name = name.removesuffix("…")[:-1] + "…"
        draw.text((left + step * column, _GAP), name, "black", font)
    for row, domain in enumerate(domains):
        middle = top + step * row + _SIDE // 2
        draw.text((_GAP, middle), domain, "black", font, anchor="lm")
        for column, category in enumerate(categories):
            images = np.flatnonzero((data.domain_codes == row) & (data.category_codes == category))
            if len(images):
                picture = Image.fromarray(np.asarray(pixels[images[len(images) // 2]]))
                place = (left + step * column, top + step * row)
                sheet.paste(picture.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR), place)
    with replacing(path) as temporary:
        sheet.save(temporary, "PNG", optimize=True)
