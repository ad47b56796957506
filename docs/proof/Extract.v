(** * The definitions as a program

    [tests/privacy/test_proof.py] compares this program with [monitor/privacy]. *)

From Coq Require Import QArith Extraction ExtrOcamlBasic.
From Kernel Require OverTime OverTimeLoss AtTimes.

Definition over_time_running := OverTime.running.
Definition over_time_step := OverTime.step.
Definition over_time_count_start := OverTime.find_count_start.
Definition at_times_step := AtTimes.step.
Definition at_times_may_answer := AtTimes.may_answer.
Definition at_times_count_start := AtTimes.find_count_start.
Definition compute_most_answers := OverTimeLoss.most_answers.

Extraction Language OCaml.
Extraction "kernel.ml" over_time_running over_time_step over_time_count_start at_times_step at_times_may_answer
  at_times_count_start compute_most_answers Qred.
