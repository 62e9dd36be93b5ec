"""What the workbench predicts, held against runs that others measured, or you.

Training as Hivemind does it, data-parallel with a butterfly all-reduce, is simulated on the links
between regions, beside 26 runs on 2 to 8 cloud machines on four continents
(`hivemind.predicted`). `validate` does the same for runs and links of your own.
"""

from workbench.comparison.data_parallel import Averaging, predict_epoch_s
from workbench.comparison.regions import Regions, tcp_link
from workbench.comparison.validation import validate

__all__ = ["Averaging", "Regions", "predict_epoch_s", "tcp_link", "validate"]
