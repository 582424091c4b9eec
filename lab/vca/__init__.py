"""An embedded controller that runs real charms as Juju 2.9's unit agents do.

docs/reference/lab-vca.md lists the parts of Juju that it has and lacks.
"""
