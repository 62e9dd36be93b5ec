"""Corpora by name, a module each."""

from workbench.comparison.validation.corpora import adaptdl, flash, gavel, hivemind, sailor, vtrain
from workbench.comparison.validation.corpus import Corpus

CORPORA: dict[str, Corpus] = {
    "adaptdl": adaptdl.CORPUS,
    "flash": flash.CORPUS,
    "gavel": gavel.CORPUS,
    "hivemind": hivemind.CORPUS,
    "sailor": sailor.CORPUS,
    "vtrain": vtrain.CORPUS,
}
