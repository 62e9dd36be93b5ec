"""Corpora by name, a module each."""

from workbench.comparison.validation.corpora import adaptdl, flash, gavel, hivemind
from workbench.comparison.validation.corpus import Corpus

CORPORA: dict[str, Corpus] = {
    "adaptdl": adaptdl.CORPUS,
    "flash": flash.CORPUS,
    "gavel": gavel.CORPUS,
    "hivemind": hivemind.CORPUS,
}
