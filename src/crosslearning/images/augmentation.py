"""Light changes of training images that leave what they show alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Augmentation"]


@dataclass(frozen=True)
class Augmentation:
    """Shift every image of a batch a little, mirror every second one, change colours, at random.

    Pixels at the border are repeated where the shift leaves a gap.

    Parameters
    ----------
    shift : float, default=0.1
        Largest shift in each direction, as a share of height and width.
    flip : bool, default=True
        Whether to exchange left and right with probability 1/2.
    colour : float, default=0.2
        Largest change of each channel: it is multiplied by 1 ± `colour`, and ± `colour` is added,
        in units of its standard deviation where images are normalised.

    Examples
    --------
    >>> x = torch.arange(6.0).reshape(1, 1, 1, 6)
    >>> Augmentation(shift=0.2, colour=0)(x, torch.Generator().manual_seed(1)).tolist()
    [[[[5.0, 5.0, 4.0, 3.0, 2.0, 1.0]]]]
    """

    shift: float = 0.1
    flip: bool = True
    colour: float = 0.2

    def __post_init__(self) -> None:
        for name, of in (("shift", "height and width"), ("colour", "the range of a channel")):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` is a share of {of}, at least 0 and below 1; got "
                    f"{getattr(self, name)}. Use 0 for none."
                )

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Change images of shape (n, channels, height, width), determined by the generator."""
        rows = self._places(x.shape[0], x.shape[2], generator)
        columns = self._places(x.shape[0], x.shape[3], generator)
        if self.flip:
            mirrored = torch.rand(len(x), 1, generator=generator) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        rows = rows.to(x.device)[:, None, :, None]
        columns = columns.to(x.device)[:, None, None, :]
        changed = x.gather(2, rows.expand_as(x)).gather(3, columns.expand_as(x))
        if not self.colour:
            return changed
        factor, offset = 2 * torch.rand(2, *x.shape[:2], 1, 1, generator=generator).to(x) - 1
        return changed.mul_(1 + self.colour * factor).add_(self.colour * offset)

    def _places(self, n_images: int, size: int, generator: torch.Generator) -> torch.Tensor:
        """For each place along an axis, the place its pixel comes from."""
        most = round(self.shift * size)
        shifts = torch.randint(-most, most + 1, (n_images, 1), generator=generator)
        return (torch.arange(size) + shifts).clamp(0, size - 1)
