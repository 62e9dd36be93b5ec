"""Pipelines: each node trains some layers, and micro-batches pass from node to node.

Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019;
Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019.
"""

from __future__ import annotations

from workbench.pipelines.longest_path import Iteration, iteration, timeline
from workbench.pipelines.memory import StageMemory, stage_memory
from workbench.pipelines.planners import PLANNERS
from workbench.pipelines.problems import Problem, problem_of
from workbench.pipelines.schedules import Pass, Plan, Stage, orders
from workbench.pipelines.training import Setup, Trained, train
from workbench.profiles import Tied

__all__ = [
    "PLANNERS",
    "Iteration",
    "Pass",
    "Plan",
    "Problem",
    "Setup",
    "Stage",
    "StageMemory",
    "Tied",
    "Trained",
    "iteration",
    "orders",
    "problem_of",
    "stage_memory",
    "timeline",
    "train",
]
