"""Actions of experiments, and the programs they run on a VDU.

The build puts this package into a charm, unless its charm.yaml says `experiments: false`. It runs
on Python 3.6; `send`, `signalling_meter` and `watch` import the standard library only.
"""
