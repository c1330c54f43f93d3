"""The HTTP server `vindex-serve`: models of one folder, jobs of the program, their results.

Modules, from the bottom:
    settings    command line and what follows from the machine
    problems    errors as the client sees them (application/problem+json)
    confine     identifiers of a client to paths, and nothing outside
    verbs       which commands and options a client may use
    asked       a request for a job, as arguments of the program
    records     the folder of a job: its files, written so that a kill loses nothing
    supervise   the process beside every run of the program, which keeps its exit code
    processes   what runs see of the environment, and how one is told to end
    jobs        queue, start, adoption, cancelling
    models      what lies below --models
    tables      columns of results files, cached
    guard       every request before it reaches a route: hosts, origins, token, sizes
    routes_*    the routes
    app, __main__   all of it together
"""
