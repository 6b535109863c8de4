"""What training code may read from the process around it: its arguments and environment variables."""

from __future__ import annotations

import os
import re

LEFT_ASIDE = re.compile(
    r"""
      CUDA_.* | HIP_.* | ROCR_.* | NVIDIA_.* | ZE_AFFINITY_MASK | PYTORCH_CUDA_ALLOC_CONF     # devices
    | (LOCAL_|GROUP_|NODE_|ROLE_)?(RANK|WORLD_SIZE) | MASTER_(ADDR|PORT) | NCCL_.* | GLOO_.*  # ranks
    | SLURM_.* | PMI_.* | OMPI_.* | TORCHELASTIC_.* | RAY_.*
    | HOME | PATH | PWD | TMPDIR | TEMP | TMP | USER | LOGNAME | HOSTNAME | SHELL | TERM      # paths, users
    | XDG_.* | PYTHON.* | LD_LIBRARY_PATH | VIRTUAL_ENV | CONDA_.* | .*_(HOME|CACHE|DIR|PATH)
    | .*(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY(_ID)?) | .*_KEY        # credentials
    | HIPPO_.* | (OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS | VECLIB_MAXIMUM_THREADS              # the plan's own
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Variables that say where training runs, and not what it computes: devices, ranks, paths, credentials.

Their values are not part of a plan. The number of threads is, but a plan keeps it itself.
"""

SECRET = re.compile(
    r".*(token|secret|password|passwd|credential|api_?key|access_key|private).*", re.IGNORECASE
)
"""Names whose values are never written down; a digest of them is."""


def variable(name: str) -> str | None:
    """Return what a variable is to the plan: its value, as text; None where it is left aside."""
    if LEFT_ASIDE.fullmatch(name):
        return None
    return repr(os.environ.get(name))
