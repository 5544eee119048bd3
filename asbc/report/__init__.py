"""Reports: runs in folders become studies (`evidence`), claims get verdicts (`verdicts`), and one page shows all.

`figures` and `tables` render by the kinds that the record of the experiment names, with the names of `names`.
`page` puts all together, `command` is `asbc-report`.
"""
