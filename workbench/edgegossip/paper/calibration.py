"""Fits the constant that the paper leaves open and writes ``data/calibration/edgegossip.toml``.

One constant is fitted on one number, the mean speed-up of 2.70 (Han et al. 2021, Sec. 4.5), over
the settings of Sec. 4.2 at the paper's own size, by `costs.course`. All else that the paper states
is predicted. ``python -m workbench.edgegossip.paper.calibration`` repeats it, in a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.edgegossip.costs.course import selecting_share, total_s
from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    EXPLANATION,
    LOAD_SEED,
    RATIOS,
    UPLINK_MBPS,
    Constants,
    Testbed,
    settings,
)
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.reproduction.claims import paper_value

FITTED_ON = "edgegossip.speedup"


def speedups(
    testbed: Testbed,
    epochs: int = EPOCHS,
    *,
    deployments: Sequence[int] = DEPLOYMENTS,
    uplink_mbps: float = UPLINK_MBPS,
    seed: int = LOAD_SEED,
) -> dict[tuple[str, int], float]:
    """Training time of GoSGD over EdgeGossip's, by model and number of platforms.

    `seed` draws the co-runners.
    """
    by_setting = {}
    for model, platforms in settings(deployments):
        deployment = testbed.deployment(model, platforms, uplink_mbps=uplink_mbps, seed=seed)
        ours = deployment.course(epochs, deployment.options())
        by_setting[model, platforms] = total_s(deployment.course(epochs)) / total_s(ours)
    return by_setting


def fit() -> Constants:
    """Constants at which the mean speed-up is the paper's, to three digits."""
    from scipy.optimize import brentq

    wanted = paper_value(FITTED_ON)

    def above(host_ms: float) -> float:
        return fmean(speedups(Testbed(Constants(host_ms))).values()) - wanted

    return Constants(float(f"{brentq(above, 0.02, 2.0, rtol=1e-3):.3g}"))


def predicted(testbed: Testbed) -> dict[str, tuple[float, float]]:
    """Ours and the paper's number, by claim, of what the constant alone decides."""
    ours = {FITTED_ON: fmean(speedups(testbed).values())}
    for claim, model in (("lenet5", "lenet5"), ("alexnet", "alexnet_cifar")):
        deployment = testbed.deployment(model)
        shares = [
            selecting_share(deployment.course(EPOCHS, deployment.options(EdgeGossip(ratio=ratio))))
            for ratio in RATIOS
        ]
        ours[f"edgegossip.fig8.{claim}"] = 100 * fmean(shares)
    return {claim: (value, paper_value(claim)) for claim, value in ours.items()}


def to_toml(constants: Constants) -> str:
    """The constants, what they were fitted on, and what they leave of the claims."""
    residuals = {
        f"{claim}  # {'fitted' if claim == FITTED_ON else 'predicted'}": f"{ours - paper:.2f}"
        for claim, (ours, paper) in predicted(Testbed(constants)).items()
    }
    return calibration_toml(
        "edgegossip",
        _ABOUT,
        explanation=EXPLANATION,
        method="the mean speed-up over models and deployments is the paper's",
        fitted_on=[FITTED_ON],
        tables={
            f"constants.{EXPLANATION}": dict(vars(constants)),
            f"residuals.{EXPLANATION}  # ours minus the paper's": residuals,
        },
    )


_ABOUT = """\
The constant of EdgeGossip's testbed that is not known, the same for every model and
deployment. Its meaning: `Constants` in the code."""


if __name__ == "__main__":
    fitted = fit()
    write_calibration("edgegossip", to_toml(fitted))
    print(f"host_ms = {fitted.host_ms}")
