"""Are runs of the same training the same? If not, what differs, and why? See `hippotune.verdicts.judge`."""
