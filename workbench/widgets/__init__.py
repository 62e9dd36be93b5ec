"""Sliders and menus bound to one chart: the explorers of the notebooks."""

from workbench.widgets.sliders import Control, Explorer, Menu, Shared, Slider, controls, explorer

__all__ = ["Control", "Explorer", "Menu", "Shared", "Slider", "controls", "explorer"]
