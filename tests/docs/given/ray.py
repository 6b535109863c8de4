import hippotune as hippo


class Digits(hippo.Trainer): ...


# The page.
assert study.executor is not None
