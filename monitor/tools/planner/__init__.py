"""The planner: the T, ε, window, update rate and answers per window that meet targets (docs/rules.md, section 7).

targets     the targets (a false alarm at most once a year, …)
request     from the options of the command line to targets and designs
designs     what T and ε apply to: slot, window and answers, or designated times
outcomes    the outcome of a choice, and the targets that it misses
solve       the choice that meets all targets, for one design and for many
conflict    the targets that collide, why (the bound of Theorem 9), and the nearest that can be met
nearby      the outcomes of a configuration and of its neighbours
silence     the share of the time that a location is silent
curves      alarms, misses and silence by count; drawn by `terminal` and `svg`
render      plans and choices as tables and JSON
command     `location-monitor plan`
"""
