"""The paper's experiments (Hong & Chandra 2021, Sec. 5) on its testbed: modules by what they show.

Ctrl-C in one of them raises `workbench.reproduction.sweep.ExperimentInterrupted`, with the finished
rows.
"""
