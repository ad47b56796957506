"""The planner: which T, ε, window, rate of updates and answers a window meet what is asked (docs/rules.md, section 7).

targets     what is asked (a false alarm at most once a year, …)
designs     what T and ε apply to: slot, window and answers, or designated times
outcomes    what a choice gives, and which targets it misses
solve       the choice that meets all targets, for one design and for many
conflict    which targets collide, why (Theorem 9's floor), and the nearest that can be met
nearby      what a configuration gives, and what its neighbours would give
curves      by count: alarms, misses, silence; drawn by `terminal` and `svg`
command     `location-monitor plan`
"""
