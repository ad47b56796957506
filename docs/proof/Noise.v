(** * The noise: one-sided and geometric

    A draw of noise is a natural number. Chances are real numbers: the infinite sum of the weights of the draws with
    which something happens. Nothing here is an axiom of ours. [tests/privacy/test_one_sided_noise.py] compares the sampler of
    the service with this law. *)

From Coq Require Import Reals ZArith Lra Lia.
Open Scope R_scope.

(** P[G = g] = (1 - e^-ε)·e^(-εg) for g = 0, 1, 2, … *)
Definition weight (epsilon : R) (g : nat) : R := (1 - exp (- epsilon)) * exp (- epsilon) ^ g.

(** "The chance of [event] is [p]", where [event] says for each draw whether something happens. *)
Definition part (epsilon : R) (event : nat -> bool) (g : nat) : R := if event g then weight epsilon g else 0.
Definition chance (epsilon : R) (event : nat -> bool) (p : R) : Prop := infinite_sum (part epsilon event) p.

Section Noise.
  Variable epsilon : R.
  Hypothesis positive : 0 < epsilon.

  Lemma decay_bounds : 0 < exp (- epsilon) < 1.
  Proof.
    split; [apply exp_pos|]. rewrite exp_Ropp, <- Rinv_1. apply Rinv_lt_contravar; pose proof (exp_ineq1 epsilon); lra.
  Qed.

  Lemma weight_positive g : 0 < weight epsilon g.
  Proof. destruct decay_bounds. apply Rmult_lt_0_compat; [lra | now apply pow_lt]. Qed.

  Lemma part_bounds event g : 0 <= part epsilon event g <= weight epsilon g.
  Proof. unfold part. pose proof (weight_positive g). destruct (event g); lra. Qed.

  (** Less noise by [shift] is likelier by the factor e^(ε·shift). *)
  Lemma weight_shift shift g : weight epsilon g = exp epsilon ^ shift * weight epsilon (shift + g).
  Proof.
    unfold weight. rewrite pow_add.
    replace (exp epsilon ^ shift * _) with
      ((exp epsilon * exp (- epsilon)) ^ shift * ((1 - exp (- epsilon)) * exp (- epsilon) ^ g))
      by (rewrite Rpow_mult_distr; ring).
    rewrite <- exp_plus, Rplus_opp_r, exp_0, pow1. ring.
  Qed.

  Lemma sum_of_weights n : sum_f_R0 (weight epsilon) n = 1 - exp (- epsilon) ^ S n.
  Proof.
    induction n as [|n IH]; [unfold weight; simpl; ring|].
    rewrite tech5, IH. unfold weight. simpl. ring.
  Qed.

  Lemma chance_is_at_least_its_parts event p n : chance epsilon event p -> sum_f_R0 (part epsilon event) n <= p.
  Proof. intros sums. apply sum_incr; [exact sums|]. intros g. apply part_bounds. Qed.

  Lemma chance_is_at_most event p bound :
    chance epsilon event p -> (forall n, sum_f_R0 (part epsilon event) n <= bound) -> p <= bound.
  Proof.
    intros sums small. destruct (Rle_or_lt p bound) as [|large]; [assumption | exfalso].
    destruct (sums (p - bound)) as [n near]; [lra|].
    specialize (near n (Nat.le_refl n)). specialize (small n). unfold R_dist in near.
    rewrite Rabs_minus_sym in near. pose proof (Rle_abs (p - sum_f_R0 (part epsilon event) n)). lra.
  Qed.

  Lemma chance_is_not_negative event p : chance epsilon event p -> 0 <= p.
  Proof.
    intros sums. pose proof (chance_is_at_least_its_parts event p 0 sums) as least. simpl in least.
    pose proof (part_bounds event 0). lra.
  Qed.

  (** Every event has exactly one chance, so no theorem about chances is empty. *)
  Lemma chance_exists event : exists p, chance epsilon event p.
  Proof.
    destruct (growing_cv (fun n => sum_f_R0 (part epsilon event) n)) as [p sums]; [| |now exists p].
    - intros n. simpl. pose proof (part_bounds event (S n)). lra.
    - exists 1. intros value [n ->]. apply Rle_trans with (sum_f_R0 (weight epsilon) n).
      + apply sum_Rle. intros g _. apply part_bounds.
      + rewrite sum_of_weights. pose proof (pow_lt (exp (- epsilon)) (S n) (proj1 decay_bounds)). lra.
  Qed.

  Lemma chance_of_same_event event event' p :
    (forall g, event g = event' g) -> chance epsilon event p -> chance epsilon event' p.
  Proof.
    intros same sums small small_positive. destruct (sums small small_positive) as [n near]. exists n. intros k large.
    erewrite sum_eq; [exact (near k large)|]. intros g _. unfold part. now rewrite same.
  Qed.

  Lemma chance_is_unique event p p' : chance epsilon event p -> chance epsilon event p' -> p = p'.
  Proof. apply uniqueness_sum. Qed.

  (** The alignment: if [event] with noise g is [event'] with noise [shift] + g, it is likelier by e^(ε·shift) at
      most. *)
  Lemma aligned_chances shift event event' p p' :
    (forall g, event g = true -> event' (shift + g)%nat = true) ->
    chance epsilon event p -> chance epsilon event' p' -> p <= exp epsilon ^ shift * p'.
  Proof.
    intros aligned sums sums'. pose proof (pow_lt _ shift (exp_pos epsilon)) as factor.
    apply (chance_is_at_most event p); [assumption|]. intros n.
    apply Rle_trans with (exp epsilon ^ shift * sum_f_R0 (part epsilon event') (shift + n)).
    2: { apply Rmult_le_compat_l; [lra | now apply chance_is_at_least_its_parts]. }
    assert (each : forall g, part epsilon event g <= exp epsilon ^ shift * part epsilon event' (shift + g)).
    { intros g. unfold part. destruct (event g) eqn:occurs.
      - rewrite (aligned g occurs), <- weight_shift. lra.
      - apply Rmult_le_pos; [lra | exact (proj1 (part_bounds event' _))]. }
    induction n as [|n IH].
    - apply Rle_trans with (exp epsilon ^ shift * part epsilon event' (shift + 0)); [apply each|].
      apply Rmult_le_compat_l; [lra|]. rewrite Nat.add_0_r. destruct shift; [simpl; lra|].
      rewrite tech5. pose proof (cond_pos_sum (part epsilon event') shift (fun g => proj1 (part_bounds event' g))). lra.
    - rewrite Nat.add_succ_r, !tech5, Rmult_plus_distr_l. specialize (each (S n)). rewrite Nat.add_succ_r in each. lra.
  Qed.

  Lemma impossible_chance event p : (forall g, event g = false) -> chance epsilon event p -> p = 0.
  Proof.
    intros never sums. apply Rle_antisym; [|now apply (chance_is_not_negative event)].
    apply (chance_is_at_most event); [assumption|]. intros n. apply Req_le.
    induction n as [|n IH]; simpl; [|rewrite IH]; unfold part; rewrite never; ring.
  Qed.

  Lemma chance_of_one_draw n : chance epsilon (Nat.eqb n) (weight epsilon n).
  Proof.
    assert (before : forall m, (m < n)%nat -> sum_f_R0 (part epsilon (Nat.eqb n)) m = 0).
    { induction m as [|m IH]; intros small; simpl; [|rewrite IH by lia]; unfold part;
        rewrite (proj2 (Nat.eqb_neq _ _)) by lia; ring. }
    assert (after : forall m, sum_f_R0 (part epsilon (Nat.eqb n)) (n + m) = weight epsilon n).
    { induction m as [|m IH].
      - rewrite Nat.add_0_r. destruct n as [|n']; [reflexivity|]. rewrite tech5, before by lia. unfold part.
        rewrite Nat.eqb_refl. ring.
      - rewrite Nat.add_succ_r, tech5, IH. unfold part. rewrite (proj2 (Nat.eqb_neq _ _)) by lia. ring. }
    intros small small_positive. exists n. intros m large. replace m with (n + (m - n))%nat by lia.
    rewrite after. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; trivial.
  Qed.

  (** P[G ≥ n] = e^(-εn). *)
  Lemma chance_to_reach n : chance epsilon (Nat.leb n) (exp (- epsilon) ^ n).
  Proof.
    set (q := exp (- epsilon)). destruct decay_bounds as [q_positive q_below_1]. fold q in q_positive, q_below_1.
    assert (sums : forall m, sum_f_R0 (part epsilon (Nat.leb n)) (n + m) = q ^ n * (1 - q ^ S m)).
    { assert (before : forall g, (g < n)%nat -> sum_f_R0 (part epsilon (Nat.leb n)) g = 0).
      { induction g as [|g IH]; intros small; simpl; [|rewrite IH by lia]; unfold part;
          rewrite (proj2 (Nat.leb_gt _ _)) by lia; ring. }
      induction m as [|m IH].
      - rewrite Nat.add_0_r. destruct n as [|n']; [unfold part, weight; fold q; simpl; ring|].
        rewrite tech5, before by lia. unfold part, weight. rewrite Nat.leb_refl. fold q. simpl. ring.
      - rewrite Nat.add_succ_r, tech5, IH. unfold part, weight. rewrite (proj2 (Nat.leb_le _ _)) by lia.
        fold q. rewrite <- Nat.add_succ_r, pow_add. simpl. ring. }
    intros small small_positive.
    destruct (pow_lt_1_zero q ltac:(rewrite Rabs_pos_eq; lra) small small_positive) as [m near].
    exists (n + m)%nat. intros k large. replace k with (n + (k - n))%nat by lia. rewrite sums.
    specialize (near (S (k - n)) ltac:(lia)). unfold R_dist.
    replace (q ^ n * (1 - q ^ S (k - n)) - q ^ n) with (- (q ^ n * q ^ S (k - n))) by ring.
    rewrite Rabs_Ropp, Rabs_mult.
    apply Rle_lt_trans with (Rabs (q ^ S (k - n))); [|assumption].
    rewrite <- (Rmult_1_l (Rabs (q ^ S (k - n)))) at 2. apply Rmult_le_compat_r; [apply Rabs_pos|].
    rewrite Rabs_pos_eq by (apply pow_le; lra). rewrite <- (pow1 n). apply pow_incr. lra.
  Qed.

  (** The law is memoryless: noise of at least [gap] is [gap] plus fresh noise, with the chance e^(-ε·gap) of the
      gap. So the program may first decide with one biased coin whether there is a number, and then draw it. *)
  Lemma memoryless gap g : weight epsilon (gap + g) = exp (- epsilon) ^ gap * weight epsilon g.
  Proof. unfold weight. rewrite pow_add. ring. Qed.

  (** ** A count plus noise

      [sum_chance f event p]: the sum of the count [f] and noise satisfies [event] with the chance [p]. *)
  Definition sum_chance (f : Z) (event : Z -> bool) (p : R) : Prop :=
    chance epsilon (fun g => event (f + Z.of_nat g)%Z) p.

  (** Whatever follows from the sum is likelier by e^ε at most if the count is higher by one at most. *)
  Lemma higher_count_costs_epsilon f f' event p p' :
    (f' <= f <= f' + 1)%Z -> sum_chance f event p -> sum_chance f' event p' -> p <= exp epsilon * p'.
  Proof.
    intros near chance_f chance_f'. pose proof (chance_is_not_negative _ _ chance_f') as sign.
    assert (aligned : p <= exp epsilon ^ Z.to_nat (f - f') * p').
    { refine (aligned_chances _ _ _ _ _ _ chance_f chance_f'). intros g.
      now replace (f' + Z.of_nat (Z.to_nat (f - f') + g))%Z with (f + Z.of_nat g)%Z by lia. }
    destruct (Z.eq_dec f f') as [-> | different].
    - rewrite Z.sub_diag in aligned. pose proof (exp_ineq1 epsilon). simpl in aligned.
      apply Rle_trans with (1 * p'); [assumption|]. apply Rmult_le_compat_r; lra.
    - replace (Z.to_nat (f - f')) with 1%nat in aligned by lia. now rewrite pow_1 in aligned.
  Qed.

  (** Whatever a lower sum keeps, such as "safe", is at least as likely if the count is lower. *)
  Lemma higher_count_makes_safe_rarer f f' event p p' :
    (f' <= f)%Z -> (forall z z', (z' <= z)%Z -> event z = true -> event z' = true) ->
    sum_chance f event p -> sum_chance f' event p' -> p <= p'.
  Proof.
    intros fewer falling chance_f chance_f'. rewrite <- (Rmult_1_l p').
    refine (aligned_chances 0 _ _ _ _ _ chance_f chance_f'). intros g. apply falling. simpl. lia.
  Qed.

  (** With fewer than [T] people, the sum is [z] or more with a chance of e^(-ε(z - T + 1)) at most. *)
  Lemma chance_of_false_alarm f T z p :
    (f < T <= z)%Z -> sum_chance f (Z.leb z) p -> p <= exp (- epsilon) ^ Z.to_nat (z - T + 1).
  Proof.
    intros few chance_z. rewrite <- (Rmult_1_l (_ ^ _)).
    refine (aligned_chances 0 _ _ _ _ _ chance_z (chance_to_reach _)). intros g reached.
    apply Z.leb_le in reached. apply Nat.leb_le. simpl. lia.
  Qed.
End Noise.
