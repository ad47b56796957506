(** * Algorithm 3: what a visit, and a person, pay over all ticks *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts OverTime.
Import ListNotations.
Open Scope Z_scope.

(** What an adversary chooses for the next decision, knowing all answers so far: the tick, the rule in force,
    whether the input is complete, whether the ledger was lost, and when, and after which slot of stamps the count
    starts. *)
Record choice :=
  { at_tick : Z; in_force : rule; complete : bool; lost_at : option Z; starts_after : option Z }.
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

Definition is_since (start : option Z) (v : visit) : bool :=
  match start with
  | None => true
  | Some a => a <? stamp v
  end.

Definition counts (c : choice) (v : visit) : bool :=
  in_window (window (in_force c)) (max_lead (in_force c)) (at_tick c) v && is_since (starts_after c) v.
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

(** [before] is the answers that a run begins with, in their order: the latest answer is first. *)
Definition begins_with (run before : list answer) : Prop := exists later, run = later ++ before.

Lemma a_run_begins_with_itself run : begins_with run run.
Proof. now exists []. Qed.

Lemma an_earlier_answer run a before : begins_with run (a :: before) -> begins_with run before.
Proof. intros [later ->]. exists (later ++ [a]). now rewrite <- app_assoc. Qed.

Section Runs_cost.
  Variables (A : adversary) (D D' : list visit) (counting : choice -> bool) (whole : list answer) (most : Q).

  Hypothesis epsilon_is_positive : forall run, (0 < epsilon (in_force (A run)))%Q.
  Hypothesis epsilon_is_at_most : forall run,
    begins_with whole run -> counting (A run) = true -> (epsilon (in_force (A run)) <= most)%Q.
  Hypothesis neighbours : exists someone, P_neighbour someone D D'.
  Hypothesis others_stay : forall run, counting (A run) = false -> count_at D (A run) = count_at D' (A run).
  Hypothesis within_a_lifetime : forall run run', begins_with whole run -> begins_with whole run' ->
    counting (A run) = true -> counting (A run') = true ->
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
    begins_with whole now -> begins_with whole before -> possible (over_time A D) before -> counting (A now) = true ->
    ledger_is_known (in_force (A now)) (at_tick (A now)) (lost_at (A now)) = true ->
    (sum_costs (cost counting A) before <=
      sum_spent (running (in_force (A now)) (ledger before (lost_at (A now))) (at_tick (A now))))%Q.
  Proof.
    intros whole_now whole_before before_possible counted known. induction before as [|a before IH]; [apply Qle_refl|].
    apply an_earlier_answer in whole_before.
    destruct before_possible as [earlier [g gives_a]]. specialize (IH whole_before earlier). simpl.
    destruct a as [|new| |]; simpl; try (rewrite Qplus_0_r; exact IH).
    destruct (noisy_answer _ _ _ _ _ _ _ gives_a) as [_ [tick_new spent_new]].
    pose proof (answer_epsilon_is_positive before) as positive. rewrite <- spent_new in *.
    unfold running in *. unfold ledger_is_known in known.
    destruct (counting (A before)) eqn:counted_before.
    - pose proof (within_a_lifetime _ _ whole_before whole_now counted_before counted) as near.
      rewrite <- tick_new in near.
      replace (is_kept (lost_at (A now)) new) with true
        by (unfold is_kept; destruct (lost_at (A now)); trivial; symmetry; apply Z.leb_le; apply Z.leb_le in known; lia).
      simpl. rewrite (proj2 (Z.leb_le (at_tick (A now)) _)) by lia. simpl. rewrite Qplus_comm.
      now apply Qplus_le_compat; [apply Qle_refl|].
    - rewrite Qplus_0_r. destruct (is_kept _ _); [|exact IH].
      simpl. destruct (_ <=? _); [|exact IH]. simpl. rewrite <- (Qplus_0_l (sum_costs _ _)).
      apply Qplus_le_compat; [now apply Qlt_le_weak | exact IH].
  Qed.

  Hypothesis most_is_positive : (0 <= most)%Q.

  Lemma run_costs run :
    begins_with whole run -> possible (over_time A D) run -> (sum_costs (cost counting A) run <= most)%Q.
  Proof.
    induction run as [|a before IH]; [trivial|]. intros whole_run [earlier [g gives_a]].
    apply an_earlier_answer in whole_run. specialize (IH whole_run earlier). simpl.
    destruct a as [|new| |]; simpl; try (rewrite Qplus_0_r; exact IH).
    destruct (counting (A before)) eqn:counted; [|rewrite Qplus_0_r; exact IH].
    destruct (noisy_answer _ _ _ _ _ _ _ gives_a) as [allowed _].
    unfold may_answer in allowed. rewrite !andb_true_iff in allowed. destruct allowed as [[known _] enough].
    apply Qle_bool_iff in enough.
    apply Qle_trans with (epsilon (in_force (A before))); [|now apply epsilon_is_at_most].
    refine (Qle_trans _ _ _ _ enough). apply Qplus_le_compat; [|apply Qle_refl]. now apply charged_marks_run.
  Qed.

  Lemma loss_of_run p p' :
    run_chance same_answer (over_time A D) whole p -> run_chance same_answer (over_time A D') whole p' ->
    (p <= exp (Q2R most) * p')%R.
  Proof.
    apply loss_is_at_most with (cost counting A); try exact noise_is_positive; [exact answer_costs|].
    intros. now apply run_costs; [apply a_run_begins_with_itself|].
  Qed.
End Runs_cost.

(** ** The promises *)

(** Promise 33: "For visits stamped in one slot, the loss of every run is at most the largest ε_l." The adversary may
    change the rule at every tick, and lose the ledger. [most] is the largest ε_l. *)
Theorem one_visit_costs_at_most_a_share A D D' c most :
  (forall run, 0 < epsilon (in_force (A run)) <= most)%Q ->
  lacks_visits c 1 D D' ->
  forall run p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros epsilons lacks run.
  set (counting := fun choice => (c <=? at_tick choice) && (at_tick choice <=? c + lifetime (in_force choice) - 1)).
  assert (counting_spec : forall choice,
    counting choice = true <-> c <= at_tick choice <= c + lifetime (in_force choice) - 1).
  { intros. unfold counting. rewrite andb_true_iff, !Z.leb_le. reflexivity. }
  apply loss_of_run with counting; [intros; apply epsilons | intros; apply epsilons | apply lacks | | |].
  - intros before not_counted. unfold count_at. destruct (complete (A before)); [|reflexivity]. f_equal.
    apply (other_counts_stay c 1); [assumption|]. intros v counted stamped. apply andb_prop in counted.
    pose proof (ticks_that_count _ _ _ _ (proj1 counted)). unfold lifetime in *.
    rewrite (proj2 (counting_spec (A before))) in not_counted; [discriminate|]. unfold lifetime. lia.
  - intros before now _ _ counted counted'. apply counting_spec in counted, counted'. lia.
  - apply Qle_trans with (epsilon (in_force (A run))); [apply Qlt_le_weak|]; apply epsilons.
Qed.

(** ** A count starts after the latest number

    This start is a function of the answers, as are all choices of the adversary. *)

Definition starts_after_numbers (A : adversary) : Prop := forall run,
  starts_after (A run) = find_count_start (in_force (A run)) (ledger run (lost_at (A run))) (at_tick (A run)).

Lemma start_is_after_running_marks r marks t m :
  In m (running r marks t) -> exists a, find_count_start r marks t = Some a /\ tick m <= a.
Proof.
  unfold find_count_start. destruct (running r marks t) as [|m0 rest]; [contradiction|]. intros found.
  eexists. split; [reflexivity|]. destruct found as [<- | found].
  - induction rest; simpl; lia.
  - induction rest as [|m1 rest IH]; [contradiction|]. simpl. destruct found as [-> | found]; [lia|].
    specialize (IH found). lia.
Qed.

Section One_record.
  Variables (A : adversary) (D : list visit) (c : Z) (most : Q).
  Hypothesis positive : forall run, (0 < epsilon (in_force (A run)))%Q.
  Hypothesis at_most : forall run, (answer_epsilon (in_force (A run)) <= most)%Q.
  Hypothesis after_numbers : starts_after_numbers A.

  (** Whether a tick may count a visit that was stamped in slot [c]. *)
  Definition counts_slot (now : choice) : bool :=
    (c <=? at_tick now) && (at_tick now <=? c + lifetime (in_force now) - 1) &&
    match starts_after now with None => true | Some a => a <? c end.

  Lemma number_is_in_ledger run new lost :
    In (Noisy new) run -> is_kept lost new = true -> In new (ledger run lost).
  Proof.
    intros found kept. induction run as [|a run IH]; [contradiction|]. simpl. destruct found as [-> | found].
    - rewrite kept. now left.
    - specialize (IH found). destruct a as [|m| |]; trivial. destruct (is_kept lost m); [now right | exact IH].
  Qed.

  (** After a number of slot [c] or later, no number counts that slot: its mark runs, or has ended with the window. *)
  Lemma later_numbers_do_not_count before new :
    In (Noisy new) before -> c <= tick new ->
    ledger_is_known (in_force (A before)) (at_tick (A before)) (lost_at (A before)) = true ->
    counts_slot (A before) = false.
  Proof.
    intros found reached known. destruct (counts_slot (A before)) eqn:counted; [exfalso | reflexivity].
    unfold counts_slot in counted. rewrite !andb_true_iff, !Z.leb_le in counted. destruct counted as [[le near] since].
    assert (kept : is_kept (lost_at (A before)) new = true).
    { unfold is_kept, ledger_is_known in *. destruct (lost_at (A before)); trivial.
      apply Z.leb_le in known. apply Z.leb_le. lia. }
    assert (runs : In (lengthen (in_force (A before)) new)
      (running (in_force (A before)) (ledger before (lost_at (A before))) (at_tick (A before)))).
    { unfold running. apply filter_In. split; [now apply in_map, number_is_in_ledger|].
      apply Z.leb_le. simpl. lia. }
    apply start_is_after_running_marks in runs. destruct runs as [a [start later]]. simpl in later.
    rewrite after_numbers, start in since. apply Z.ltb_lt in since. lia.
  Qed.

  Lemma slot_is_paid_once run :
    possible (over_time A D) run ->
    (sum_costs (cost counts_slot A) run == 0)%Q \/
    ((sum_costs (cost counts_slot A) run <= most)%Q /\ exists new, In (Noisy new) run /\ c <= tick new).
  Proof.
    induction run as [|a before IH]; [now left|]. intros [earlier [g gives_a]]. specialize (IH earlier). simpl.
    assert (kept : (cost counts_slot A before a == 0)%Q ->
      (sum_costs (cost counts_slot A) before + cost counts_slot A before a == 0)%Q \/
      ((sum_costs (cost counts_slot A) before + cost counts_slot A before a <= most)%Q /\
        exists new, In (Noisy new) (a :: before) /\ c <= tick new)).
    { intros free. rewrite free, Qplus_0_r. destruct IH as [zero | [less [new [found reached]]]]; [now left | right].
      split; [assumption|]. exists new. split; [now right | assumption]. }
    destruct a as [|new| |]; try now apply kept.
    destruct (noisy_answer _ _ _ _ _ _ _ gives_a) as [allowed [tick_new _]].
    unfold may_answer in allowed. rewrite !andb_true_iff in allowed. destruct allowed as [[known _] _].
    destruct (counts_slot (A before)) eqn:counted; [|apply kept; simpl; now rewrite counted].
    right. destruct IH as [zero | [_ [earlier_new [found reached]]]].
    - rewrite zero, Qplus_0_l. simpl. rewrite counted. split; [apply at_most|].
      exists new. split; [now left|]. unfold counts_slot in counted. rewrite !andb_true_iff, !Z.leb_le in counted. lia.
    - rewrite (later_numbers_do_not_count before earlier_new found reached known) in counted. discriminate.
  Qed.
End One_record.

(** Promise 10: "If each count starts after the latest number whose mark runs, the loss of every run is at most the
    largest ε_l/k, for D' that lacks visits of one person which Kafka stamped in one slot." The adversary may change
    the rule at every tick, and lose the ledger. [most] is the largest ε_l/k. *)
Theorem one_record_costs_at_most_an_answer A D D' c most :
  (forall run, 0 < epsilon (in_force (A run)))%Q ->
  (forall run, answer_epsilon (in_force (A run)) <= most)%Q ->
  starts_after_numbers A ->
  lacks_visits c 1 D D' ->
  forall run p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros positive at_most after_numbers lacks run.
  assert (most_sign : (0 <= most)%Q).
  { apply Qle_trans with (answer_epsilon (in_force (A []))); [apply Qlt_le_weak|]; trivial.
    now apply answer_epsilon_is_positive. }
  apply loss_is_at_most with (cost (counts_slot c) A); try exact (noise_is_positive A positive).
  - intros before a. apply answer_costs; [assumption | apply lacks |]. intros before' not_counted. unfold count_at.
    destruct (complete (A before')); [|reflexivity]. f_equal. apply (other_counts_stay c 1); [assumption|].
    intros v counted stamped. apply andb_prop in counted. destruct counted as [inside since].
    pose proof (ticks_that_count _ _ _ _ inside).
    enough (counts_slot c (A before') = true) by congruence. unfold counts_slot, lifetime. rewrite !andb_true_iff, !Z.leb_le.
    replace c with (stamp v) by lia. repeat split; [lia | lia | exact since].
  - intros run_possible. destruct (slot_is_paid_once A D c most at_most after_numbers run run_possible) as [zero | [less _]].
    + now rewrite zero.
    + assumption.
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

(** Promise 14: "A run of an `over_time` location whose numbers were all computed from counts that are the same under
    D and D' has a loss of at most 0." *)
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

(** The most answers in N ticks: any W + F consecutive ticks have at most k. *)
Definition answers_within (k lifetime N : Z) : Z := k * (N / lifetime) + Z.min k (N mod lifetime).
Definition most_answers (k W F H : Z) : Z := answers_within k (W + F) (H + W + F - 1).

Definition payment (r : rule) (N : Z) : Q :=
  answer_epsilon r * inject_Z (answers_within (Zpos (answers r)) (lifetime r) N).

(** [ticks] ticks from [from] on that are all decided under one rule. *)
Record stretch := { from : Z; ticks : Z; decided_under : rule }.

Definition within (lo n : Z) (c : choice) : bool := (lo <=? at_tick c) && (at_tick c <? lo + n).
Definition contains (s : stretch) : choice -> bool := within (from s) (ticks s).

Fixpoint sum_payments (stretches : list stretch) : Q :=
  match stretches with
  | [] => 0
  | s :: rest => payment (decided_under s) (ticks s) + sum_payments rest
  end.

Lemma share_of_answers r : epsilon r == (inject_Z (Zpos (answers r)) * answer_epsilon r)%Q.
Proof. unfold answer_epsilon, Qeq. cbn -[Z.mul Pos.mul]. rewrite !Pos2Z.inj_mul. ring. Qed.

Section One_stretch.
  Variables (A : adversary) (D : list visit) (whole : list answer) (s : stretch).
  Hypothesis positive : forall run, (0 < epsilon (in_force (A run)))%Q.
  Hypothesis rule_is_positive : (0 < epsilon (decided_under s))%Q.
  Hypothesis ticks_increase : forall run a, at_tick (A run) < at_tick (A (a :: run)).
  Hypothesis one_rule : forall run,
    begins_with whole run -> contains s (A run) = true -> in_force (A run) = decided_under s.

  Let r := decided_under s.
  Definition is_inside (lo n : Z) : Prop := from s <= lo /\ lo + n <= from s + ticks s.
  Definition paid (lo n : Z) (run : list answer) : Q := sum_costs (cost (within lo n) A) run.

  Lemma rule_inside lo n run :
    is_inside lo n -> begins_with whole run -> within lo n (A run) = true -> in_force (A run) = r.
  Proof.
    unfold is_inside, within. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. intros inside whole_run near.
    apply one_rule; [assumption|]. unfold contains, within. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. lia.
  Qed.

  Lemma paid_in_a_lifetime lo n run :
    is_inside lo n -> n <= lifetime r -> begins_with whole run -> possible (over_time A D) run ->
    (paid lo n run <= epsilon r)%Q.
  Proof.
    intros inside short. apply run_costs.
    - exact positive.
    - intros before whole_before near. rewrite (rule_inside lo n); trivial. apply Qle_refl.
    - intros before now whole_before whole_now near near_now. rewrite (rule_inside lo n now); trivial.
      unfold within in *. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt in near, near_now. lia.
    - now apply Qlt_le_weak.
  Qed.

  Lemma multiples x y : x <= y -> (inject_Z x * answer_epsilon r <= inject_Z y * answer_epsilon r)%Q.
  Proof.
    intros le. apply Qmult_le_compat_r; [now rewrite <- Zle_Qle|]. apply Qlt_le_weak. now apply Qmult_lt_0_compat.
  Qed.

  Lemma paid_at_each_tick lo n run :
    is_inside lo n -> 0 <= n -> begins_with whole run -> (paid lo n run <= inject_Z n * answer_epsilon r)%Q.
  Proof.
    intros inside sign whole_run.
    apply Qle_trans with (inject_Z (Z.max 0 (Z.min n (at_tick (A run) - lo))) * answer_epsilon r)%Q;
      [|apply multiples; lia].
    induction run as [|a before IH].
    { unfold paid. simpl. rewrite <- (Qmult_0_l (answer_epsilon r)). apply (multiples 0). lia. }
    apply an_earlier_answer in whole_run. specialize (IH whole_run).
    unfold paid in *. simpl. specialize (ticks_increase before a).
    assert (one_more : (cost (within lo n) A before a <=
      inject_Z (if within lo n (A before) then 1 else 0) * answer_epsilon r)%Q).
    { assert (nothing : (0 <= inject_Z (if within lo n (A before) then 1 else 0) * answer_epsilon r)%Q).
      { rewrite <- (Qmult_0_l (answer_epsilon r)). apply (multiples 0). destruct (within _ _ _); lia. }
      unfold cost. destruct a; trivial. destruct (within lo n (A before)) eqn:near; [|assumption].
      rewrite (rule_inside lo n); trivial. rewrite <- (Qmult_1_l (answer_epsilon r)) at 1. apply Qle_refl. }
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
  Lemma paid_in_lifetimes (lifetimes : nat) lo rest run :
    is_inside lo (Z.of_nat lifetimes * lifetime r + rest) -> 0 <= rest <= lifetime r ->
    begins_with whole run -> possible (over_time A D) run ->
    (paid lo (Z.of_nat lifetimes * lifetime r + rest) run <=
      inject_Z (Zpos (answers r) * Z.of_nat lifetimes + Z.min (Zpos (answers r)) rest) * answer_epsilon r)%Q.
  Proof.
    intros inside part whole_run run_possible. revert lo inside. induction lifetimes as [|n IH]; intros lo inside.
    - rewrite Z.mul_0_r. simpl in *. destruct (Z.min_spec (Zpos (answers r)) rest) as [[_ ->] | [_ ->]].
      + rewrite <- share_of_answers. now apply paid_in_a_lifetime.
      + now apply paid_at_each_tick.
    - replace (Z.of_nat (S n) * lifetime r + rest) with (lifetime r + (Z.of_nat n * lifetime r + rest)) in * by lia.
      rewrite (paid_splits lo (lifetime r) (Z.of_nat n * lifetime r + rest) run ltac:(lia) ltac:(nia)).
      assert (first_lifetime : is_inside lo (lifetime r)) by (unfold is_inside in *; nia).
      assert (others : is_inside (lo + lifetime r) (Z.of_nat n * lifetime r + rest)) by (unfold is_inside in *; lia).
      refine (Qle_trans _ _ _ (Qplus_le_compat _ _ _ _
        (paid_in_a_lifetime _ _ _ first_lifetime (Z.le_refl _) whole_run run_possible) (IH _ others)) _).
      rewrite share_of_answers, <- Qmult_plus_distr_l, <- inject_Z_plus. apply multiples. lia.
  Qed.

  Lemma paid_in_the_stretch :
    1 <= lifetime r -> 0 <= ticks s -> possible (over_time A D) whole ->
    (paid (from s) (ticks s) whole <= payment r (ticks s))%Q.
  Proof.
    intros sign ticks_sign run_possible. unfold payment, answers_within. rewrite Qmult_comm.
    pose proof (Z.div_mod (ticks s) (lifetime r) ltac:(lia)) as division.
    pose proof (Z.mod_pos_bound (ticks s) (lifetime r) ltac:(lia)) as rest.
    pose proof (Z.div_pos (ticks s) (lifetime r) ltac:(lia) ltac:(lia)) as lifetimes.
    pose proof (paid_in_lifetimes (Z.to_nat (ticks s / lifetime r)) (from s) (ticks s mod lifetime r) whole) as bound.
    rewrite Z2Nat.id in bound by lia.
    replace (ticks s / lifetime r * lifetime r + ticks s mod lifetime r) with (ticks s) in bound by lia.
    apply bound; [unfold is_inside; lia | lia | apply a_run_begins_with_itself | assumption].
  Qed.
End One_stretch.

(** If every tick that costs something is in a stretch, a run costs at most what is paid in all stretches. *)
Lemma stretches_cover A counting stretches run :
  (forall run, 0 < epsilon (in_force (A run)))%Q ->
  (forall before, begins_with run before -> counting (A before) = true ->
    existsb (fun s => contains s (A before)) stretches = true) ->
  (sum_costs (cost counting A) run <=
    fold_right (fun s sum => paid A (from s) (ticks s) run + sum) 0 stretches)%Q.
Proof.
  intros positive. unfold paid. induction run as [|a before IH]; intros covered.
  { simpl. clear. induction stretches as [|s rest IH]; [apply Qle_refl|]. simpl. now rewrite Qplus_0_l. }
  simpl sum_costs at 1.
  assert (earlier : forall run, begins_with before run -> begins_with (a :: before) run).
  { intros run [later ->]. now exists (a :: later). }
  specialize (IH (fun run whole_run => covered run (earlier run whole_run))).
  specialize (covered before (earlier before (a_run_begins_with_itself before))).
  apply Qle_trans with (
    fold_right (fun s sum => sum_costs (cost (within (from s) (ticks s)) A) before + sum) 0 stretches +
    fold_right (fun s sum => cost (contains s) A before a + sum) 0 stretches)%Q.
  - apply Qplus_le_compat; [exact IH|]. clear IH earlier.
    assert (signs : forall counts, (0 <= cost counts A before a)%Q) by (intros; now apply cost_is_not_negative).
    assert (sum_sign : forall some, (0 <= fold_right (fun s sum => cost (contains s) A before a + sum) 0 some)%Q).
    { induction some as [|s rest IH]; [apply Qle_refl|]. simpl. now apply (Qplus_le_compat 0 _ 0 _). }
    unfold cost at 1. destruct a; trivial. destruct (counting (A before)); trivial. specialize (covered eq_refl).
    induction stretches as [|s rest IH]; [discriminate|]. simpl in *. destruct (contains s (A before)).
    + rewrite <- (Qplus_0_r (answer_epsilon _)) at 1. apply Qplus_le_compat; [apply Qle_refl | apply sum_sign].
    + rewrite Qplus_0_l. now apply IH.
  - clear. induction stretches as [|s rest IH]; [apply Qle_refl|]. simpl in *.
    refine (Qle_trans _ _ _ _ (Qplus_le_compat _ _ _ _ (Qle_refl _) IH)).
    match goal with |- (?x <= ?y)%Q => enough (same : x == y) by (rewrite same; apply Qle_refl) end.
    unfold contains. ring.
Qed.

(** Promise 33: "If the ticks of a run whose counts differ are in stretches, each with N ticks under one rule, the
    loss of the run is at most the sum of the formula over its stretches." The adversary may choose the rules from
    the answers, so each run has its own stretches. *)
Theorem repeated_visits_cost_the_formula_of_each_stretch A D D' someone run stretches :
  (forall before, 0 < epsilon (in_force (A before)))%Q ->
  (forall before a, at_tick (A before) < at_tick (A (a :: before))) ->
  P_neighbour someone D D' ->
  (forall s, In s stretches ->
    (0 < epsilon (decided_under s))%Q /\ 1 <= lifetime (decided_under s) /\ 0 <= ticks s) ->
  (forall before s, begins_with run before -> In s stretches -> contains s (A before) = true ->
    in_force (A before) = decided_under s) ->
  (forall before, begins_with run before -> count_at D (A before) <> count_at D' (A before) ->
    exists s, In s stretches /\ contains s (A before) = true) ->
  forall p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R (sum_payments stretches)) * p')%R.
Proof.
  intros positive increase neighbour shapes one_rule covered.
  set (counting := fun c => if same_count (count_at D c) (count_at D' c) then false else true).
  apply loss_is_at_most with (cost counting A); try exact (noise_is_positive A positive).
  - intros before a. apply answer_costs; [assumption | now exists someone |]. intros before'. unfold counting.
    now destruct (same_count _ _).
  - intros run_possible. refine (Qle_trans _ _ _ (stretches_cover A counting stretches run positive _) _).
    + intros before whole_before. unfold counting. destruct (same_count _ _) as [|different]; [discriminate|].
      intros _. apply existsb_exists. now apply covered.
    + clear covered. induction stretches as [|s rest IH]; [apply Qle_refl|]. simpl.
      destruct (shapes s (or_introl eq_refl)) as [rule_positive [lifetime_sign ticks_sign]].
      apply Qplus_le_compat.
      * apply (paid_in_the_stretch A D); trivial. intros before whole_before. apply one_rule; simpl; auto.
      * apply IH; intros; [apply shapes | eapply one_rule]; simpl; eauto.
Qed.

(** Promise 11: "Under one rule, the loss of every run is at most the formula." [lacks_visits] says what D' lacks.
    All ticks that count it are in one stretch. *)
Theorem repeated_visits_cost_the_formula A D D' r first H :
  (forall run, in_force (A run) = r) -> (forall run a, at_tick (A run) < at_tick (A (a :: run))) ->
  (0 < epsilon r)%Q -> 1 <= window r -> 0 <= max_lead r -> 1 <= H ->
  lacks_visits first H D D' ->
  forall run p p',
  run_chance same_answer (over_time A D) run p -> run_chance same_answer (over_time A D') run p' ->
  (p <= exp (Q2R (payment r (H + window r + max_lead r - 1))) * p')%R.
Proof.
  intros one_rule increase positive W_sign F_sign H_sign lacks run p p'. destruct (proj1 lacks) as [someone neighbour].
  set (s := {| from := first; ticks := H + window r + max_lead r - 1; decided_under := r |}).
  replace (Q2R (payment r _)) with (Q2R (sum_payments [s])) by (apply Qeq_eqR, Qplus_0_r).
  apply (repeated_visits_cost_the_formula_of_each_stretch A D D' someone); trivial.
  - intros. now rewrite one_rule.
  - intros s' [<- | []]. unfold s, lifetime. simpl. repeat split; [assumption | lia | lia].
  - intros before s' _ [<- | []] _. apply one_rule.
  - intros before _ different. exists s. split; [now left|].
    destruct (contains s (A before)) eqn:inside; [reflexivity | elim different]. unfold count_at.
    destruct (complete (A before)); [|reflexivity]. f_equal. apply (other_counts_stay first H); [assumption|].
    intros v counted stamped. apply andb_prop in counted. pose proof (ticks_that_count _ _ _ _ (proj1 counted)) as near.
    rewrite one_rule in near. unfold contains, within, s in inside. simpl in inside. apply andb_false_iff in inside.
    rewrite Z.leb_gt, Z.ltb_ge in inside. lia.
Qed.
