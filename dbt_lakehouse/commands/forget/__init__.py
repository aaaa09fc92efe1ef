"""`lakehouse forget`: a key's data out of every table of the lake, and out of their files.

    command   what is asked for, in which order it is done, what is reported
    entities  which tables hold a key's data, from the models' declarations
    finding   which keys and events are meant
    reading   payloads that it takes to tell, and their events
    leaving   the rest of their payloads, and of rows of other_events
    payloads  a batch without some of its records
    erasing   the tables' rows: deleted, or emptied where their place must stay
    purging   the data out of the tables' files and earlier snapshots
    requests  bronze.forgotten: what was done, without personal data

All SQL runs in this process: none of it, and no error of it, gets into dbt's files.
"""
