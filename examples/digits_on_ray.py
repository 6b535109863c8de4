"""The study of digits.py on Ray: on the cluster that RAY_ADDRESS names, or else on this machine alone.

python examples/digits_on_ray.py
"""

from __future__ import annotations

import hippotune as hippo
from digits import Digits, tuner

study = hippo.Study("digits", Digits, home=".hippo/on-ray", executor=hippo.Ray())

if __name__ == "__main__":
    report = study.tune(tuner)
    print(report)
