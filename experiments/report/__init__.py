"""The report of a campaign: a page and tables, made from its runs."""
