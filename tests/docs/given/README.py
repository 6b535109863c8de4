import hippotune as hippo

hippo.Local = hippo.Simulated  # virtual time: the page shows no training code

# The page.
assert len(report.trials) == 8
assert report.work.steps_trained < report.work.steps_requested / 2
