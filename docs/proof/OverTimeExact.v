(** * Algorithm 3: the loss of one record can be ε_l/k *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts OverTime OverTimeLoss.
Import ListNotations.
Open Scope Z_scope.

Section One_record_can_cost_an_answer.
  Variable r : rule.
  Hypothesis positive : (0 < epsilon r)%Q.
  Hypothesis low_threshold : threshold r = 1.
  Hypothesis shape : 1 <= window r /\ 0 <= max_lead r.

  (** The ticks 0, 1, 2, …, at which each count starts after the latest number, and a visit that tick 0 counts. *)
  Definition ticks : adversary := fun run =>
    {| at_tick := Z.of_nat (length run); in_force := r; complete := true; lost_at := None;
       starts_after := find_count_start r (ledger run None) (Z.of_nat (length run)) |}.
  Definition visit_in_slot_0 : list visit := [{| person := 0; stamp := 0; last := 0 |}].

  (** The noisy count 1 at tick 0. *)
  Definition number : answer :=
    Noisy {| tick := 0; noisy_count := 1; spent := answer_epsilon r; until := lifetime r - 1 |}.

  Lemma chance_of_number D f noise :
    f + Z.of_nat noise = 1 -> count_at D (ticks []) = Some f ->
    run_chance same_answer (over_time ticks D) [number] (1 * weight (Q2R (answer_epsilon r)) noise).
  Proof.
    intros one counted. apply next_answer; [constructor|].
    assert (allowed : may_answer r [] 0 None = true).
    { apply Qle_bool_iff. simpl. rewrite Qplus_0_l. unfold answer_epsilon. rewrite <- (Qmult_1_r (epsilon r)) at 2.
      rewrite !(Qmult_comm (epsilon r)). apply Qmult_le_compat_r; [unfold Qle; simpl; lia | now apply Qlt_le_weak]. }
    assert (decided : forall g, decide (over_time ticks D) [] g = answer_sum r 0 (f + Z.of_nat g)).
    { intros g. unfold over_time, decide. cbv zeta. rewrite counted. simpl. unfold step. now rewrite allowed. }
    refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ noise)). intros g. rewrite decided.
    unfold answer_sum, number. rewrite low_threshold. destruct (Nat.eqb_spec noise g) as [<- | different].
    - rewrite one. change (1 <? 1) with false. cbv iota. now destruct (same_answer _ _).
    - destruct (Z.ltb_spec (f + Z.of_nat g) 1); [reflexivity|].
      destruct (same_answer _ _) as [same|]; [injection same; lia | reflexivity].
  Qed.
End One_record_can_cost_an_answer.

(** Promise 10: "A run with T = 1 has the loss ε_l/k." One visit and the noisy count 1 reach it. *)
Theorem one_record_can_cost_an_answer r :
  (0 < epsilon r)%Q -> threshold r = 1 -> 1 <= window r -> 0 <= max_lead r ->
  starts_after_numbers (ticks r) /\
  exists p p' run,
  run_chance same_answer (over_time (ticks r) visit_in_slot_0) run p /\
  run_chance same_answer (over_time (ticks r) []) run p' /\
  (0 < p' /\ p = exp (Q2R (answer_epsilon r)) * p')%R.
Proof.
  intros positive low W_sign F_sign. split; [intros run; reflexivity|]. set (e := Q2R (answer_epsilon r)).
  assert (noisy : (0 < e)%R).
  { subst e. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt. now apply Qmult_lt_0_compat. }
  exists (1 * weight e 0)%R, (1 * weight e 1)%R, [number r]. repeat split.
  - apply (chance_of_number r positive low visit_in_slot_0 1 0); [reflexivity|].
    unfold count_at, counts, count, people, in_window. simpl.
    rewrite (proj2 (Z.leb_le _ (Z.min _ _))) by lia. reflexivity.
  - apply (chance_of_number r positive low [] 0 1); reflexivity.
  - rewrite Rmult_1_l. now apply weight_positive.
  - rewrite (weight_shift e 1 0). simpl. ring.
Qed.
