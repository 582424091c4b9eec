"""From the runs of a campaign to a page and tables."""
