"""The planner: find T, ε, window, update rate and answers per window that meet targets (docs/rules.md, section 7).

targets     the targets (a false alarm at most once a year, …)
request     read targets and designs from the options of the command line
designs     everything but T and ε: slot, window and answers, or designated times
outcomes    the outcome of a plan (a design with T and ε), and the targets that it misses
solve       find the plans that meet all targets
conflict    explain targets that collide (the bound of Theorem 9), and find the nearest that can be met
nearby      the outcomes of a configuration and of its neighbours
silence     the share of time in which a location is silent
curves      alarms, misses and silence by number of people; drawn by `terminal` and `svg`
render      print plans and choices as tables and JSON
command     `location-monitor plan`
"""
