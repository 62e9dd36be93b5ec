"""Words for a training run that could not go on."""

from __future__ import annotations

from workbench.training.diverged import DivergedError


def why_ended(
    error: Exception, *, learning_rate: float, done: int, planned: int, what: str = "epochs"
) -> str:
    """Why training ended, and where what it had is.

    Parameters
    ----------
    error
        That ended the simulation; a `DivergedError` behind it is told with the way out.
    learning_rate
        Of the run.
    done, planned
        How many epochs it got through, and was to.
    what
        These are, in words.
    """
    cause, reason = error.__cause__, str(error)
    if isinstance(cause, DivergedError):
        reason = (
            f"training diverged: {cause}; use a smaller learning rate than {learning_rate:g}, as "
            "in sgd=Sgd(learning_rate=...)"
        )
    kept = f"{done} of {planned} {what} {'was' if done == 1 else 'were'} done"
    apart = "\n" if "\n" in reason else " "
    return f"{reason}{apart}({kept}: `trained` of this error has what there is)"
