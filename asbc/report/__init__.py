"""Figures, tables and one page from results: what was measured, and what it says of the paper's claims."""
