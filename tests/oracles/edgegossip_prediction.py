"""EdgeGossip's performance predictor from the paper in clear loops: no reuse of the package."""

from collections.abc import Sequence

INFINITY = float("inf")


def features(form: str, u: Sequence[float], cores: int) -> list[float]:
    """What is weighted, of contention in shares of its scale."""
    found = list(u)
    if form == "share":
        part_of_a_core = cores * (1 - u[0])
        found.append(1 / part_of_a_core - 1 if part_of_a_core < 1 else 0.0)
    return found


def mean_contention(
    readings: Sequence[Sequence[float]], own: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """Second by second, weighted by time; readings are (at_s, cores_s, busy_s, network, disk)."""
    core = network = disk = cores_s = time_s = 0.0
    for i in range(1, len(readings)):
        seconds = readings[i][0] - readings[i - 1][0]
        time_s += seconds
        cores_s += readings[i][1] - readings[i - 1][1]
        core += (readings[i][2] - readings[i - 1][2]) - (own[i][0] - own[i - 1][0])
        network += (readings[i][3] - readings[i - 1][3]) - (own[i][1] - own[i - 1][1])
        disk += (readings[i][4] - readings[i - 1][4]) - (own[i][2] - own[i - 1][2])
    return core / cores_s, network / time_s, disk / time_s


def penalised(
    rows: Sequence[Sequence[float]],
    seconds: Sequence[float],
    numbers: Sequence[float],
    ridge: float,
) -> float:
    """Mean square of relative errors and the ridge: what fitting makes least.

    `rows` are features, `numbers` t_0 and then t_0 times each weight.
    """
    count, total = len(rows), 0.0
    for i in range(count):
        predicted = numbers[0]
        for k in range(len(rows[i])):
            predicted += numbers[1 + k] * rows[i][k]
        total += (predicted / seconds[i] - 1) ** 2 / count
    for k in range(len(rows[0])):
        square = 0.0
        for i in range(count):
            square += (rows[i][k] / seconds[i]) ** 2 / count
        total += ridge * numbers[1 + k] ** 2 * square
    return total
