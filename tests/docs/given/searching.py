import hippotune as hippo
from hippotune import WSD, Choice, Int, LogUniform


class Digits(hippo.Trainer): ...


study = hippo.Study("digits", Digits, executor=hippo.Simulated(workers=4))

# The page.
assert report.work.steps_trained <= 20_000 < report.work.steps_requested
