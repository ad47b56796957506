(** * Algorithm 3: what a visit, and a person, pay over all ticks *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts OverTime.
Import ListNotations.
Open Scope Z_scope.

(** What an adversary chooses for the next decision, knowing all answers so far: the tick, the rule in force,
    whether the input is complete, and whether the ledger was lost, and when. *)
Record choice := { at_tick : Z; in_force : rule; complete : bool; lost_at : option Z }.
Definition adversary := list answer -> choice.

(** The marks in the ledger: the noisy answers since it was lost. *)
Definition is_kept (lost : option Z) (m : mark) : bool :=
  match lost with
  | None => true
  | Some l => l <=? tick m
  end.

Fixpoint ledger (run : list answer) (lost : option Z) : list mark :=
  match run with
  | [] => []
  | Noisy m :: before =>
      if is_kept lost m then m :: ledger before lost else ledger before lost
  | _ :: before => ledger before lost
  end.

Definition counts (c : choice) : visit -> bool := in_window (window (in_force c)) (max_lead (in_force c)) (at_tick c).
Definition count_at (D : list visit) (c : choice) : option Z := if complete c then Some (count (counts c) D) else None.

(** Algorithm 3 on the accepted visits D at its location. *)
Definition over_time (A : adversary) (D : list visit) : mechanism answer :=
  {| noise_at := fun run => answer_epsilon (in_force (A run));
     decide := fun run g =>
       let c := A run in
       step (in_force c) (ledger run (lost_at c)) (at_tick c) (count_at D c) (Z.of_nat g) (lost_at c) |}.

(** A number at a tick that may count the removed visits costs the ε of the answer. Nothing else costs anything. *)
Definition cost (counting : choice -> bool) (A : adversary) (run : list answer) (a : answer) : Q :=
  match a with
  | Noisy _ => if counting (A run) then answer_epsilon (in_force (A run)) else 0
  | _ => 0
  end.

Section Runs_cost.
  Variables (A : adversary) (D D' : list visit) (counting : choice -> bool) (most : Q).

  Hypothesis epsilon_is_positive : forall run, (0 < epsilon (in_force (A run)))%Q.
  Hypothesis epsilon_is_at_most : forall run, (epsilon (in_force (A run)) <= most)%Q.
  Hypothesis neighbours : exists someone, P_neighbour someone D D'.
  Hypothesis others_stay : forall run, counting (A run) = false -> count_at D (A run) = count_at D' (A run).
  Hypothesis within_a_lifetime : forall run run', counting (A run) = true -> counting (A run') = true ->
    at_tick (A run') <= at_tick (A run) + lifetime (in_force (A run')) - 1.

  Lemma answer_epsilon_is_positive run : (0 < answer_epsilon (in_force (A run)))%Q.
  Proof. unfold answer_epsilon. now apply Qmult_lt_0_compat. Qed.

  Lemma noise_is_positive run : (0 < Q2R (answer_epsilon (in_force (A run))))%R.
  Proof. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt, answer_epsilon_is_positive. Qed.

  Lemma cost_is_not_negative run a : (0 <= cost counting A run a)%Q.
  Proof.
    pose proof (answer_epsilon_is_positive run). unfold cost. destruct a; try apply Qle_refl.
    destruct (counting (A run)); [now apply Qlt_le_weak | apply Qle_refl].
  Qed.

  Lemma answer_costs run a p p' :
    answer_chance same_answer (over_time A D) run a p ->
    answer_chance same_answer (over_time A D') run a p' -> (p <= exp (Q2R (cost counting A run a)) * p')%R.
  Proof.
    unfold answer_chance. simpl. intros chance_D chance_D'. pose proof (noise_is_positive run) as positive.
    assert (free : (p <= p')%R -> (p <= exp (Q2R (cost counting A run a)) * p')%R).
    { intros less. apply a_cost_only_helps; [assumption | eapply chance_is_not_negative; eassumption |].
      apply cost_is_not_negative. }
    assert (equal : count_at D (A run) = count_at D' (A run) -> (p <= p')%R).
    { intros same. rewrite <- same in chance_D'. apply Req_le. eapply chance_is_unique; eassumption. }
    destruct (counting (A run)) eqn:counted; [|now apply free, equal, others_stay].
    unfold count_at in *. destruct (complete (A run)); [|now apply free, equal].
    destruct neighbours as [someone neighbour].
    pose proof (count_falls_by_one_at_most someone (counts (A run)) D D' neighbour).
    destruct a; try (apply free; eapply safe_costs_nothing; try eassumption; [lia | discriminate]).
    simpl. rewrite counted. eapply tick_costs_epsilon; eassumption.
  Qed.

  Lemma noisy_answer r marks t count noise lost new :
    step r marks t count noise lost = Noisy new ->
    may_answer r marks t lost = true /\ tick new = t /\ spent new = answer_epsilon r.
  Proof.
    unfold step, answer_sum. destruct (may_answer r marks t lost); simpl; [|discriminate].
    destruct count; [|discriminate].
    destruct (_ <? _); [discriminate|]. intros answered. now injection answered as <-.
  Qed.

  (** Marks sit on slots: the marks of all earlier numbers that cost something run at the next tick that counts. *)
  Lemma charged_marks_run now before :
    possible (over_time A D) before -> counting (A now) = true ->
    ledger_is_known (in_force (A now)) (at_tick (A now)) (lost_at (A now)) = true ->
    (sum_costs (cost counting A) before <=
      sum_spent (running (in_force (A now)) (ledger before (lost_at (A now))) (at_tick (A now))))%Q.
  Proof.
    intros before_possible counted known. induction before as [|a before IH]; [apply Qle_refl|].
    destruct before_possible as [earlier [g gives_a]]. specialize (IH earlier). simpl.
    destruct a as [|new| |]; simpl; try (rewrite Qplus_0_r; exact IH).
    destruct (noisy_answer _ _ _ _ _ _ _ gives_a) as [_ [tick_new spent_new]].
    pose proof (answer_epsilon_is_positive before) as positive. rewrite <- spent_new in *.
    unfold running in *. unfold ledger_is_known in known.
    destruct (counting (A before)) eqn:counted_before.
    - pose proof (within_a_lifetime _ _ counted_before counted) as near. rewrite <- tick_new in near.
      replace (is_kept (lost_at (A now)) new) with true
        by (unfold is_kept; destruct (lost_at (A now)); trivial; symmetry; apply Z.leb_le; apply Z.leb_le in known; lia).
      simpl. rewrite (proj2 (Z.leb_le (at_tick (A now)) _)) by lia. simpl. rewrite Qplus_comm.
      now apply Qplus_le_compat; [apply Qle_refl|].
    - rewrite Qplus_0_r. destruct (is_kept _ _); [|exact IH].
      simpl. destruct (_ <=? _); [|exact IH]. simpl. rewrite <- (Qplus_0_l (sum_costs _ _)).
      apply Qplus_le_compat; [now apply Qlt_le_weak | exact IH].
  Qed.

  Lemma run_costs run :
    possible (over_time A D) run -> (sum_costs (cost counting A) run <= most)%Q.
  Proof.
    assert (most_is_positive : (0 <= most)%Q).
    { apply Qle_trans with (epsilon (in_force (A []))); [|apply epsilon_is_at_most].
      apply Qlt_le_weak, epsilon_is_positive. }
    induction run as [|a before IH]; [trivial|]. intros [earlier [g gives_a]]. specialize (IH earlier). simpl.
    destruct a as [|new| |]; simpl; try (rewrite Qplus_0_r; exact IH).
    destruct (counting (A before)) eqn:counted; [|rewrite Qplus_0_r; exact IH].
    destruct (noisy_answer _ _ _ _ _ _ _ gives_a) as [allowed _].
    apply andb_prop in allowed. destruct allowed as [known enough].
    apply Qle_bool_iff in enough. apply Qle_trans with (epsilon (in_force (A before))); [|apply epsilon_is_at_most].
    refine (Qle_trans _ _ _ _ enough). apply Qplus_le_compat; [|apply Qle_refl]. now apply charged_marks_run.
  Qed.

  Lemma loss_of_run run p p' :
    run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
    (p <= exp (Q2R most) * p')%R.
  Proof.
    apply loss_is_at_most with (cost counting A); try exact noise_is_positive; [exact answer_costs | exact run_costs].
  Qed.
End Runs_cost.

(** ** The promises *)

(** Promise 10: "For D' that lacks one visit, an `over_time` location is (P, ε_l)-ADP over its whole output: all
    ticks, k answers per window, and `unknown` at ticks that an adversary chooses."
    Promise 33: "When ε, k, T, W, F, horizons or places change while a ledger exists, a visit pays at most the
    larger of the two shares at an `over_time` location."
    The adversary may change the rule at every tick, and lose the ledger. [most] is the largest ε_l. *)
Theorem one_visit_costs_at_most_a_share A D D' c most :
  (forall run, 0 < epsilon (in_force (A run)) <= most)%Q ->
  lacks_visits c 1 D D' ->
  forall run p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros epsilons lacks.
  set (counting := fun choice => (c <=? at_tick choice) && (at_tick choice <=? c + lifetime (in_force choice) - 1)).
  assert (counting_spec : forall choice,
    counting choice = true <-> c <= at_tick choice <= c + lifetime (in_force choice) - 1).
  { intros. unfold counting. rewrite andb_true_iff, !Z.leb_le. reflexivity. }
  apply loss_of_run with counting; try apply epsilons; [apply lacks | |].
  - intros run not_counted. unfold count_at. destruct (complete (A run)); [|reflexivity]. f_equal.
    apply (other_counts_stay c 1); [assumption|]. unfold lifetime in *. intros counted.
    rewrite (proj2 (counting_spec (A run))) in not_counted; [discriminate|]. unfold lifetime. lia.
  - intros run run' counted counted'. apply counting_spec in counted, counted'. lia.
Qed.

Definition same_count (x y : option Z) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

(** Whether all numbers of a run were computed from counts that are the same under D and D'. *)
Fixpoint numbers_do_not_count (A : adversary) (D D' : list visit) (run : list answer) : Prop :=
  match run with
  | [] => True
  | a :: before =>
      numbers_do_not_count A D D' before /\
      ((exists new, a = Noisy new) -> count_at D (A before) = count_at D' (A before))
  end.

(** Promise 14: "A person has a loss of 0 if no published number and no published hot spots were computed from a count
    that contains the person." *)
Theorem other_answers_cost_nothing A D D' someone :
  (forall run, 0 < epsilon (in_force (A run)))%Q ->
  P_neighbour someone D D' ->
  forall run p p', numbers_do_not_count A D D' run ->
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= p')%R.
Proof.
  intros positive neighbour run p p' free chances chances'.
  set (counting := fun c => if same_count (count_at D c) (count_at D' c) then false else true).
  assert (costs_nothing : sum_costs (cost counting A) run == 0).
  { clear chances chances'. induction run as [|a before IH]; [reflexivity|]. destruct free as [earlier now]. simpl.
    rewrite (IH earlier), Qplus_0_l. destruct a; try reflexivity. simpl. unfold counting.
    destruct (same_count _ _) as [|different]; [reflexivity|]. elim different. apply now. eauto. }
  assert (total : (p <= exp (Q2R (sum_costs (cost counting A) run)) * p')%R).
  - apply (costs_add_up same_answer (over_time A D) (over_time A D') (noise_is_positive A positive)); [|assumption..].
    intros before a. apply answer_costs; [assumption | now exists someone |]. intros before'. unfold counting.
    now destruct (same_count _ _).
  - rewrite (Qeq_eqR _ _ costs_nothing), RMicromega.Q2R_0, exp_0 in total. lra.
Qed.

(** ** Repeated visits *)

Definition most_answers (k W F H : Z) : Z :=
  let N := H + W + F - 1 in k * (N / (W + F)) + Z.min k (N mod (W + F)).

Definition payment (r : rule) (H : Z) : Q :=
  answer_epsilon r * inject_Z (most_answers (Zpos (answers r)) (window r) (max_lead r) H).

Section Repeated_visits.
  Variables (A : adversary) (D : list visit) (r : rule).
  Hypothesis one_rule : forall run, in_force (A run) = r.
  Hypothesis epsilon_is_positive : (0 < epsilon r)%Q.
  Hypothesis ticks_increase : forall run a, at_tick (A run) < at_tick (A (a :: run)).

  (** The [n] ticks from [lo] on. *)
  Definition within (lo n : Z) (c : choice) : bool := (lo <=? at_tick c) && (at_tick c <? lo + n).
  Definition paid (lo n : Z) (run : list answer) : Q := sum_costs (cost (within lo n) A) run.

  Lemma share_of_answers : epsilon r == (inject_Z (Zpos (answers r)) * answer_epsilon r)%Q.
  Proof. unfold answer_epsilon, Qeq. cbn -[Z.mul Pos.mul]. rewrite !Pos2Z.inj_mul. ring. Qed.

  Lemma paid_in_a_lifetime lo n run : n <= lifetime r -> possible (over_time A D) run -> (paid lo n run <= epsilon r)%Q.
  Proof.
    intros short. apply run_costs.
    - intros before. now rewrite one_rule.
    - intros before. rewrite one_rule. apply Qle_refl.
    - intros before before'. unfold within. rewrite !andb_true_iff, !Z.leb_le, !Z.ltb_lt, one_rule. lia.
  Qed.

  Lemma multiples x y : x <= y -> (inject_Z x * answer_epsilon r <= inject_Z y * answer_epsilon r)%Q.
  Proof.
    intros le. apply Qmult_le_compat_r; [now rewrite <- Zle_Qle|]. apply Qlt_le_weak. now apply Qmult_lt_0_compat.
  Qed.

  Lemma paid_at_each_tick lo n run : 0 <= n -> (paid lo n run <= inject_Z n * answer_epsilon r)%Q.
  Proof.
    intros sign. apply Qle_trans with (inject_Z (Z.max 0 (Z.min n (at_tick (A run) - lo))) * answer_epsilon r)%Q;
      [|apply multiples; lia].
    induction run as [|a before IH].
    { unfold paid. simpl. rewrite <- (Qmult_0_l (answer_epsilon r)). apply (multiples 0). lia. }
    unfold paid in *. simpl. specialize (ticks_increase before a).
    assert (one_more : (cost (within lo n) A before a <=
      inject_Z (if within lo n (A before) then 1 else 0) * answer_epsilon r)%Q).
    { assert (nothing : (0 <= inject_Z (if within lo n (A before) then 1 else 0) * answer_epsilon r)%Q).
      { rewrite <- (Qmult_0_l (answer_epsilon r)). apply (multiples 0). destruct (within _ _ _); lia. }
      unfold cost. rewrite one_rule. destruct a; trivial. destruct (within _ _ _); [|assumption].
      rewrite <- (Qmult_1_l (answer_epsilon r)) at 1. apply Qle_refl. }
    refine (Qle_trans _ _ _ (Qplus_le_compat _ _ _ _ IH one_more) _). unfold within.
    destruct (Z.leb_spec lo (at_tick (A before))), (Z.ltb_spec (at_tick (A before)) (lo + n)); simpl;
      rewrite <- Qmult_plus_distr_l, <- inject_Z_plus; apply multiples; lia.
  Qed.

  Lemma paid_splits lo n n' run : 0 <= n -> 0 <= n' -> paid lo (n + n') run == (paid lo n run + paid (lo + n) n' run)%Q.
  Proof.
    intros sign sign'. unfold paid. induction run as [|a before IH]; [reflexivity|]. simpl. rewrite IH.
    assert (once : cost (within lo (n + n')) A before a ==
      (cost (within lo n) A before a + cost (within (lo + n) n') A before a)%Q); [|rewrite once; ring].
    unfold cost, within. destruct a; try reflexivity.
    destruct (Z.leb_spec lo (at_tick (A before))), (Z.ltb_spec (at_tick (A before)) (lo + n)),
      (Z.leb_spec (lo + n) (at_tick (A before))), (Z.ltb_spec (at_tick (A before)) (lo + n + n')),
      (Z.ltb_spec (at_tick (A before)) (lo + (n + n'))); simpl; try lia; ring.
  Qed.

  (** Any W + F consecutive ticks have at most k answers. *)
  Lemma paid_in_lifetimes (whole : nat) lo rest run :
    0 <= rest <= lifetime r -> possible (over_time A D) run ->
    (paid lo (Z.of_nat whole * lifetime r + rest) run <=
      inject_Z (Zpos (answers r) * Z.of_nat whole + Z.min (Zpos (answers r)) rest) * answer_epsilon r)%Q.
  Proof.
    intros part run_possible. revert lo. induction whole as [|whole IH]; intros lo.
    - rewrite Z.mul_0_r. simpl. destruct (Z.min_spec (Zpos (answers r)) rest) as [[_ ->] | [_ ->]].
      + rewrite <- share_of_answers. now apply paid_in_a_lifetime.
      + now apply paid_at_each_tick.
    - replace (Z.of_nat (S whole) * lifetime r + rest) with (lifetime r + (Z.of_nat whole * lifetime r + rest)) by lia.
      rewrite (paid_splits lo (lifetime r) (Z.of_nat whole * lifetime r + rest) run ltac:(lia) ltac:(nia)).
      refine (Qle_trans _ _ _ (Qplus_le_compat _ _ _ _ (paid_in_a_lifetime _ _ _ (Z.le_refl _) run_possible) (IH _)) _).
      rewrite share_of_answers, <- Qmult_plus_distr_l, <- inject_Z_plus. apply multiples. lia.
  Qed.
End Repeated_visits.

(** Promise 11: "For D' that lacks any visits of one person in H consecutive slots, the loss at an `over_time`
    location is at most (ε_l/k)·(k·⌊N/(W + F)⌋ + min(k, N mod (W + F))), with N = H + W + F - 1." *)
Theorem repeated_visits_cost_the_formula A D D' r first H :
  (forall run, in_force (A run) = r) -> (forall run a, at_tick (A run) < at_tick (A (a :: run))) ->
  (0 < epsilon r)%Q -> 1 <= window r -> 0 <= max_lead r -> 1 <= H ->
  lacks_visits first H D D' ->
  forall run p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R (payment r H)) * p')%R.
Proof.
  intros one_rule increase positive W_sign F_sign H_sign lacks.
  assert (positive_at : forall run, (0 < epsilon (in_force (A run)))%Q) by (intros; now rewrite one_rule).
  set (N := H + window r + max_lead r - 1).
  apply loss_is_at_most with (cost (within first N) A); try exact (noise_is_positive A positive_at).
  - intros before a. apply answer_costs; [assumption | apply lacks |]. intros run outside. unfold count_at.
    destruct (complete (A run)); [|reflexivity]. f_equal. apply (other_counts_stay first H); [assumption|].
    rewrite one_rule. unfold within in outside. apply andb_false_iff in outside.
    rewrite Z.leb_gt, Z.ltb_ge in outside. subst N. lia.
  - intros run run_possible. unfold payment. rewrite Qmult_comm. unfold most_answers. fold N.
    pose proof (Z.div_mod N (lifetime r) ltac:(unfold lifetime; lia)) as division.
    pose proof (Z.mod_pos_bound N (lifetime r) ltac:(unfold lifetime; lia)) as rest.
    pose proof (Z.div_pos N (lifetime r) ltac:(subst N; lia) ltac:(unfold lifetime; lia)) as whole. fold (lifetime r).
    pose proof (paid_in_lifetimes A D r one_rule positive increase (Z.to_nat (N / lifetime r)) first
      (N mod lifetime r) run ltac:(lia) run_possible) as bound.
    rewrite Z2Nat.id in bound by lia. replace (N / lifetime r * lifetime r + N mod lifetime r) with N in bound by lia.
    exact bound.
Qed.
