"""The HTTP server `vindex-serve`: models of one folder, jobs of the program, their results.

Modules, from the bottom:
    settings    command line and what follows from the machine
    problems    errors as the client sees them (application/problem+json)
    confine     identifiers of a client to paths, and nothing outside
    jobs.commands   which commands and options a client may use
    jobs.requests   a request for a job, as arguments of the program
    jobs.records    the folder of a job: its files, written so that a kill loses nothing
    jobs.supervise  the process beside every run of the program, which keeps its exit code
    jobs.processes  what runs see of the environment, and how one is told to end
    jobs.queue      queue, start, adoption, cancelling
    jobs.inputs     identifiers of a request, as names in the folder of a job
    jobs.events     progress as a stream
    models      what lies below --models
    results     columns of results files, cached; files by ranges
    guard       every request before it reaches a route: hosts, origins, token, sizes
    routes      the routes
    app, __main__   all of it together
"""
