"""The store in PostgreSQL, shared by the processes of many machines. Begin with `store`.

`tables` has what is kept and how it grows from version to version. `link` is a connection that is
made again when it was cut. `appends` writes facts, one fenced statement for all that wait; `reading`
reads them along
their chain of checksums. `catalogue`, `inbox`, `leases` and `pool` are the other tables; `life` says that
this process lives, and hears who calls it. psycopg is imported with this package and nowhere else.
"""
