"""Mask R-CNN (He, Gkioxari, Dollár and Girshick 2017) with a feature pyramid, of fixed shapes.

The architecture, and with it the number of parameters, is that of the published weights for COCO: a
ResNet-50 whose normalisations are frozen, a feature pyramid (Lin et al. 2017) of 256 channels, a
region proposal network of three anchors a position, heads for boxes, classes and masks.

Deviation: shapes may not depend on data. Non-maximum suppression is replaced by the proposals of
the highest scores, a fixed number of all levels together; so nothing is suppressed that overlaps,
and as many masks as boxes are made. Every region is pooled on all levels, and the one that fits its
size is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

WIDTH = 256
SCALES = (4, 8, 16, 32, 64)
"""Pixels of the image to one of each level of the pyramid."""
SIDES = (32, 64, 128, 256, 512)
"""Sides of anchors, in pixels."""
RATIOS = (0.5, 1.0, 2.0)
"""Height over width."""
REGIONS = 100


class FrozenNorm(nn.Module):
    """Batch normalisation whose statistics and weights do not learn."""

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("shift", torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift each channel."""
        return x * self.scale[:, None, None] + self.shift[:, None, None]


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels = 4 * width
        self.body = nn.Sequential(
            *_normalised(channels_in, width, 1),
            nn.ReLU(),
            *_normalised(width, width, 3, stride),
            nn.ReLU(),
            *_normalised(width, channels, 1),
        )
        same = channels_in == channels and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*_normalised(channels_in, channels, 1, stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add body and shortcut."""
        return F.relu(self.body(x) + self.shortcut(x))


class Pyramid(nn.Module):
    """ResNet-50 and the feature pyramid on its four stages; a fifth level is pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *_normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        )
        stages, channels = [], 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            stage = [Bottleneck(channels, width, stride)]
            channels = 4 * width
            stage += [Bottleneck(channels, width, 1) for _ in range(blocks - 1)]
            stages.append(nn.Sequential(*stage))
        self.stages = nn.ModuleList(stages)
        self.inner = nn.ModuleList(
            nn.Conv2d(channels, WIDTH, 1) for channels in (256, 512, 1024, 2048)
        )
        self.outer = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(4))

    def forward(self, image: Tensor) -> list[Tensor]:
        """Features of each level, the finest first."""
        x, maps = self.stem(image), []
        for stage, inner in zip(self.stages, self.inner, strict=True):
            x = stage(x)
            maps.append(inner(x))
        for level in (2, 1, 0):
            larger = F.interpolate(maps[level + 1], size=maps[level].shape[-2:], mode="nearest")
            maps[level] = maps[level] + larger
        levels = [outer(larger_map) for outer, larger_map in zip(self.outer, maps, strict=True)]
        return [*levels, F.max_pool2d(levels[-1], 1, stride=2)]


class Proposals(nn.Module):
    """The region proposal network: boxes of the highest scores, of all levels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.score = nn.Conv2d(WIDTH, len(RATIOS), 1)
        self.change = nn.Conv2d(WIDTH, 4 * len(RATIOS), 1)

    def forward(self, levels: Sequence[Tensor]) -> Tensor:
        """Boxes: (images, `REGIONS`, 4), each left, top, right, bottom, in pixels."""
        scores, boxes = [], []
        for level, scale, side in zip(levels, SCALES, SIDES, strict=True):
            x = F.relu(self.conv(level))
            images = len(x)
            scores.append(self.score(x).permute(0, 2, 3, 1).reshape(images, -1))
            changes = self.change(x).permute(0, 2, 3, 1).reshape(images, -1, 4)
            boxes.append(_moved(_anchors(level, scale, side), changes))
        _, best = torch.cat(scores, 1).topk(REGIONS, 1)
        return torch.cat(boxes, 1).gather(1, best[..., None].expand(-1, -1, 4))


class MaskRCNN(nn.Module):
    """Returns class scores, changes of boxes by class, and masks by class, of each region."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.pyramid, self.proposals = Pyramid(), Proposals()
        self.box = nn.Sequential(
            nn.Flatten(), nn.Linear(49 * WIDTH, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()
        )
        self.score, self.change = nn.Linear(1024, classes), nn.Linear(1024, 4 * classes)
        convolutions = [nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(4)]
        self.mask = nn.Sequential(
            *(part for convolution in convolutions for part in (convolution, nn.ReLU())),
            nn.ConvTranspose2d(WIDTH, WIDTH, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(WIDTH, classes, 1),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes (regions, classes), (regions, 4 classes) and (regions, classes, 28, 28)."""
        levels = self.pyramid(image)
        boxes = self.proposals(levels)
        x = self.box(_align(levels[:4], boxes, 7))
        return self.score(x), self.change(x), self.mask(_align(levels[:4], boxes, 14))


def mask_rcnn(classes: int = 91) -> MaskRCNN:
    """Mask R-CNN on ResNet-50 and a feature pyramid for 3x768x768 images; 44,401,393 parameters."""
    return MaskRCNN(classes)


def _normalised(channels_in: int, channels: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, FrozenNorm(channels)]


def _anchors(level: Tensor, scale: int, side: int) -> Tensor:
    """Boxes around each position: (positions x ratios, 4) of centre, width and height."""
    height, width = level.shape[-2:]
    y, x = (torch.arange(count).to(level) * scale for count in (height, width))
    ratios = torch.tensor(RATIOS).to(level).sqrt()
    centres = torch.stack([x.expand(height, -1), y[:, None].expand(-1, width)], -1)
    sizes = torch.stack([side / ratios, side * ratios], -1)
    shape = (height, width, len(RATIOS), 2)
    both = [centres[:, :, None].expand(shape), sizes.expand(shape)]
    return torch.cat(both, -1).reshape(-1, 4)


def _moved(anchors: Tensor, changes: Tensor) -> Tensor:
    """Anchors moved and scaled: left, top, right, bottom."""
    centre = anchors[:, :2] + changes[..., :2] * anchors[:, 2:]
    half = anchors[:, 2:] * changes[..., 2:].clamp(max=4.0).exp() / 2
    return torch.cat([centre - half, centre + half], -1)


def _align(levels: Sequence[Tensor], boxes: Tensor, size: int) -> Tensor:
    """RoIAlign, a sample a bin: (images x regions, channels, size, size)."""
    images, regions = boxes.shape[:2]
    pixels = levels[0].shape[-1] * SCALES[0]
    places = (torch.arange(size, dtype=boxes.dtype, device=boxes.device) + 0.5) / size
    low, high = boxes[..., :2, None], boxes[..., 2:, None]
    at = 2 * (low + (high - low) * places) / pixels - 1  # images, regions, x and y, size
    x = at[:, :, 0, None, :].expand(-1, -1, size, -1)
    y = at[:, :, 1, :, None].expand(-1, -1, -1, size)
    grid = torch.stack([x, y], -1).reshape(images, regions * size, size, 2)
    area = (boxes[..., 2:] - boxes[..., :2]).clamp(min=1.0).prod(-1)
    fitting = (4 + (area.sqrt() / 224).log2()).floor().clamp(2, 5) - 2
    pooled = torch.zeros((), dtype=boxes.dtype, device=boxes.device)
    for number, level in enumerate(levels):
        sampled = F.grid_sample(level, grid, align_corners=False)
        sampled = sampled.reshape(images, WIDTH, regions, size, size)
        here = (fitting == number).to(boxes.dtype)
        pooled = pooled + sampled * here[:, None, :, None, None]
    return pooled.transpose(1, 2).flatten(0, 1)
