import hippotune as hippo
from hippotune import Exponential, MultiStep

# The page.
