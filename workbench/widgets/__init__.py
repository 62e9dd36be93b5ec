"""Sliders and menus bound to one chart: the explorers of the notebooks."""

from workbench.widgets.sliders import Control, Explorer, Menu, Slider, controls, explorer

__all__ = ["Control", "Explorer", "Menu", "Slider", "controls", "explorer"]
