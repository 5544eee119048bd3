"""Reports: runs in folders become studies (`evidence`, `study`), claims get verdicts, and one page shows all.

`evidence` reads the runs, `study` computes comparisons, `answers` and `claims` judge them. `figures` and `tables`
render by the kinds that the record of the experiment names, `page` puts all together, `command` is `asbc-report`.
"""
