"""Data-parallel training in which nodes share out what each would otherwise hold whole.

Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.
"""
