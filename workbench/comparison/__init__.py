"""Which way should I train this? Every way of training on one model and one cluster."""

from workbench.comparison.answer import Answer, answer
from workbench.comparison.compare import compare
from workbench.comparison.question import Question, UnusableError
from workbench.comparison.ways import WAYS

__all__ = ["WAYS", "Answer", "Question", "UnusableError", "answer", "compare"]
