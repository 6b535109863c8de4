import hippotune as hippo


class Digits(hippo.Trainer): ...


# The page.
