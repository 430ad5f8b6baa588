"""What is cross-learning worth on emoji as four vendors draw them?

The domains are Apple, Facebook, Google and Twitter, the categories the nine groups of Unicode, and
the images 750 of the 1,852 emoji that all four draw, as 3,000 JPEG files (from the npm packages
`emoji-datasource-*` 16.0.0, fetched with npm on first use: 340 MB). An emoji is in the same part
for all vendors, so that no network is tested on one that another vendor's drawing has shown it.

All methods start from the same weights and see the same batches for as many steps, or fit the same
features. Each seed has its own split, initial weights and order, and its own validation images
choose ε between 0 and ∞. The share of pooled epochs and the radii were fixed with the seeds 100 and
101 of these emoji and of icons in four styles, of which nothing is reported. Accuracies are means
over categories, then over domains; ± is one standard deviation over seeds, or one standard error of
a gain, paired by seed, and p is from Student's t.

Run it with ``python benchmarks/emoji.py`` (half an hour on an idle core), or try it with
``--seeds 1``.
"""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import tarfile
from pathlib import Path

from image_sweeps import CACHE, main
from PIL import Image

from crosslearning.files import new_folder
from crosslearning.images import ImageDomains

VENDORS = ("apple", "facebook", "google", "twitter")
VERSION = "16.0.0"
NO_EMOJI = "Component"  # parts of emoji: tones of skin and hair
KEPT, SIDE, QUALITY = 750, 256, 90
WHEN = """## When it matters

These domains differ in looks alone: an image means the same in all of them, so that one network
learns from four times as many images, and no way to give each domain its own was found to be better
than pooling. Pooling first keeps a radius from losing what pooling gains, no more than that. Where
the domains differ in what is to be predicted, [it does gain](personal.md)."""


def emoji() -> ImageDomains:
    """Fetch the emoji once, and write some of them as JPEG files."""
    target = CACHE / "emoji"
    if not target.exists():
        with new_folder(target) as folder:
            groups = [("path", "group")]
            for vendor in VENDORS:
                groups += unpack(folder, vendor)
            with (folder / "groups.csv").open("w", newline="") as stream:
                csv.writer(stream).writerows(groups)
    return ImageDomains(target)


def unpack(folder: Path, vendor: str) -> list[tuple[str, str]]:
    """Fetch the emoji of one vendor; return the paths of files, and what they show."""
    command = ["npm", "pack", f"emoji-datasource-{vendor}@{VERSION}", "--silent"]
    found = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    archive, paths = folder / found.stdout.strip(), []
    with tarfile.open(archive) as package:
        wanted = chosen(json.load(package.extractfile("package/emoji.json")))
        for member in package:
            base, _, file = member.name.rpartition("/")
            if base.endswith(f"img/{vendor}/64") and file in wanted:
                path = folder / vendor / wanted[file] / f"{Path(file).stem}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                image = Image.open(io.BytesIO(package.extractfile(member).read())).convert("RGBA")
                white = Image.new("RGBA", image.size, "white")
                white.alpha_composite(image)
                larger = white.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
                larger.save(path, quality=QUALITY)
                paths.append((path.relative_to(folder).as_posix(), path.stem))
    archive.unlink()
    return paths


def chosen(described: list[dict]) -> dict[str, str]:
    """Draw emoji that all vendors have, without tones of skin; return the category of each file."""
    found = {
        one["image"]: one["category"].replace(" & ", "_")
        for one in described
        if one["category"] != NO_EMOJI and all(one[f"has_img_{vendor}"] for vendor in VENDORS)
    }
    files = sorted(found)
    random.Random(1).shuffle(files)
    return {file: found[file] for file in files[:KEPT]}


if __name__ == "__main__":
    main(emoji(), "emoji", __doc__, more=WHEN)
