"""What the user holds: studies, their tuning and their reports."""
