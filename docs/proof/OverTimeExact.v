(** * Algorithm 3: the loss of one visit can be ε_l *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts OverTime OverTimeLoss.
Import ListNotations.
Open Scope Z_scope.

Section One_visit_can_cost_a_share.
  Variable r : rule.
  Hypothesis positive : (0 < epsilon r)%Q.
  Hypothesis low_threshold : threshold r = 1.
  Hypothesis shape : 1 <= window r /\ 0 <= max_lead r.
  Hypothesis few_answers : Zpos (answers r) <= lifetime r.

  (** The ticks 0, 1, 2, …, and a visit that the first W + F of them count. *)
  Definition ticks : adversary :=
    fun run => {| at_tick := Z.of_nat (length run); in_force := r; complete := true; lost_at := None |}.
  Definition long_visit : list visit := [{| person := 0; stamp := 0; last := max_lead r |}].

  (** The noisy count 1 at each of the first [n] ticks. *)
  Definition number (t : Z) : answer :=
    Noisy {| tick := t; noisy_count := 1; spent := answer_epsilon r; until := t + lifetime r - 1 |}.
  Fixpoint numbers (n : nat) : list answer :=
    match n with
    | O => []
    | S n => number (Z.of_nat n) :: numbers n
    end.

  Lemma length_of_numbers n : length (numbers n) = n.
  Proof. induction n; simpl; congruence. Qed.

  Lemma spent_by_numbers n t :
    t < lifetime r -> sum_spent (running r (ledger (numbers n) None) t) == inject_Z (Z.of_nat n) * answer_epsilon r.
  Proof.
    intros early. induction n as [|n IH]; [symmetry; apply Qmult_0_l|]. unfold running in *.
    cbn [numbers number ledger is_kept map filter lengthen until tick].
    rewrite (proj2 (Z.leb_le t _)) by lia. cbn [sum_spent spent].
    rewrite IH, Nat2Z.inj_succ, <- Z.add_1_l, inject_Z_plus, Qmult_plus_distr_l. apply Qplus_inj_r.
    symmetry. apply Qmult_1_l.
  Qed.

  Lemma chance_of_number n f noise :
    Z.of_nat n < Zpos (answers r) -> f + Z.of_nat noise = 1 ->
    forall D, count_at D (ticks (numbers n)) = Some f ->
    answer_chance same_answer (over_time ticks D) (numbers n) (number (Z.of_nat n))
      (weight (Q2R (answer_epsilon r)) noise).
  Proof.
    intros few one D counted.
    assert (allowed : may_answer r (ledger (numbers n) None) (Z.of_nat n) None = true).
    { apply Qle_bool_iff. rewrite spent_by_numbers by lia. rewrite (share_of_answers r).
      rewrite <- (Qmult_1_l (answer_epsilon r)) at 2. rewrite <- Qmult_plus_distr_l. apply Qmult_le_compat_r.
      - change 1%Q with (inject_Z 1). rewrite <- inject_Z_plus, <- Zle_Qle. lia.
      - apply Qlt_le_weak. now apply Qmult_lt_0_compat. }
    assert (decided : forall g,
      decide (over_time ticks D) (numbers n) g = answer_sum r (Z.of_nat n) (f + Z.of_nat g)).
    { intros g. unfold over_time, decide. cbv zeta. rewrite counted. unfold ticks. cbn [at_tick in_force lost_at].
      rewrite length_of_numbers. unfold step. now rewrite allowed. }
    refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ noise)). intros g. rewrite decided.
    unfold answer_sum, number. rewrite low_threshold. destruct (Nat.eqb_spec noise g) as [<- | different].
    - rewrite one. change (1 <? 1) with false. cbv iota. now destruct (same_answer _ _).
    - destruct (Z.ltb_spec (f + Z.of_nat g) 1); [reflexivity|].
      destruct (same_answer _ _) as [same|]; [injection same; lia | reflexivity].
  Qed.

  Lemma chance_of_numbers n f noise D :
    Z.of_nat n <= Zpos (answers r) -> f + Z.of_nat noise = 1 ->
    (forall before, Z.of_nat (length before) < lifetime r -> count_at D (ticks before) = Some f) ->
    run_chance same_answer (over_time ticks D) (numbers n) (weight (Q2R (answer_epsilon r)) noise ^ n).
  Proof.
    intros few one counted. induction n as [|n IH]; [constructor|]. simpl. rewrite Rmult_comm.
    apply next_answer; [apply IH; lia|]. apply (chance_of_number n f noise); [lia | assumption|].
    apply counted. rewrite length_of_numbers. lia.
  Qed.
End One_visit_can_cost_a_share.

(** Promise 10: "For k ≤ W + F, a run with T = 1 has the loss ε_l." One visit and k noisy counts of 1 reach it. *)
Theorem one_visit_can_cost_a_share r :
  (0 < epsilon r)%Q -> threshold r = 1 -> 1 <= window r -> 0 <= max_lead r -> Zpos (answers r) <= lifetime r ->
  exists p p' run,
  run_chance same_answer (over_time (ticks r) (long_visit r)) run p /\
  run_chance same_answer (over_time (ticks r) []) run p' /\
  (0 < p' /\ p = exp (Q2R (epsilon r)) * p')%R.
Proof.
  intros positive low W_sign F_sign few. set (k := Pos.to_nat (answers r)). set (e := Q2R (answer_epsilon r)).
  assert (noisy : (0 < e)%R).
  { subst e. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt. now apply Qmult_lt_0_compat. }
  exists (weight e 0 ^ k)%R, (weight e 1 ^ k)%R, (numbers r k). repeat split.
  - apply (chance_of_numbers r positive low few k 1 0); [subst k; lia | reflexivity|].
    intros before early. unfold count_at, counts, long_visit, count, people, in_window, lifetime in *. simpl.
    rewrite (proj2 (Z.leb_le 0 _)), (proj2 (Z.leb_le _ (Z.min _ _))) by lia. reflexivity.
  - apply (chance_of_numbers r positive low few k 0 1); [subst k; lia | reflexivity|]. intros. reflexivity.
  - apply pow_lt. now apply weight_positive.
  - rewrite (weight_shift e 1 0), Rpow_mult_distr, pow_1. f_equal.
    rewrite (Qeq_eqR _ _ (share_of_answers r)), Q2R_mult. fold e. unfold Q2R at 1. simpl.
    rewrite Rinv_1, Rmult_1_r, <- (positive_nat_Z (answers r)), <- INR_IZR_INZ. fold k. clear.
    induction k as [|n IH]; [simpl; now rewrite Rmult_0_l, exp_0|].
    rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, Rplus_comm, exp_plus, <- IH. reflexivity.
Qed.
