(** * Algorithm 4: all locations at a designated time τ

    The definitions are those of [monitor/privacy/at_times.py]. Every location is evaluated at every tick, so a tick
    is a sequence of evaluations, each with fresh noise. Here an adversary chooses which location is evaluated next. *)

From Coq Require Import ZArith QArith Qreals Reals List Bool Lia Lra.
From Kernel Require Import Noise Runs Counts.
Import ListNotations.
Open Scope Z_scope.

(** ** Definitions *)

(** A location is listed in the snapshots of τ from its first noisy count on, which marks it permanently. *)
Inductive answer := Unlisted | Listed (place noisy_count : Z) | Marked | Unknown.

(** The answer of an unmarked location, if its count plus noise is [z]. *)
Definition answer_sum (threshold place z : Z) : answer := if z <? threshold then Unlisted else Listed place z.

(** [count] is [None] if the input is incomplete. *)
Definition step (threshold place : Z) (marked : bool) (count : option Z) (noise : Z) : answer :=
  match count with
  | None => Unknown
  | Some f => if marked then Marked else answer_sum threshold place (f + noise)
  end.

(** The program decides with a biased coin whether the noise reaches the gap up to T, and draws the rest only then.
    [memoryless] in [Noise.v] shows that the coin and the rest have these chances. *)
Definition gap (threshold f : Z) : Z := Z.max (threshold - f) 0.
Definition draw (threshold place f : Z) (reached : bool) (rest : Z) : answer :=
  if reached then Listed place (Z.max f threshold + rest) else Unlisted.

Lemma draw_is_step threshold place f noise :
  0 <= noise ->
  draw threshold place f (gap threshold f <=? noise) (noise - gap threshold f) =
  step threshold place false (Some f) noise.
Proof.
  intros sign. unfold draw, step, answer_sum, gap.
  destruct (Z.leb_spec (Z.max (threshold - f) 0) noise), (Z.ltb_spec (f + noise) threshold);
    [exfalso; lia | f_equal; lia | reflexivity | exfalso; lia].
Qed.

(** ** What is published is true *)

(** Promise 2: "If a location with the count f is evaluated and not listed, f < T." *)
Theorem unlisted_is_safe threshold place marked f noise :
  0 <= noise -> step threshold place marked (Some f) noise = Unlisted -> f < threshold.
Proof.
  unfold step, answer_sum. destruct marked; [discriminate|].
  destruct (Z.ltb_spec (f + noise) threshold); [lia | discriminate].
Qed.

(** Promise 2: "With incomplete input the answer is `unknown`." *)
Theorem incomplete_is_unknown threshold place marked noise : step threshold place marked None noise = Unknown.
Proof. reflexivity. Qed.

(** Promise 3: "A noisy count that is computed from the count f is at least f and at least T." *)
Theorem listed_count_is_a_bound threshold place marked f noise place' z :
  0 <= noise -> step threshold place marked (Some f) noise = Listed place' z -> f <= z /\ threshold <= z.
Proof.
  unfold step, answer_sum. destruct marked; [discriminate|].
  destruct (Z.ltb_spec (f + noise) threshold); [discriminate|]. intros sign answered. injection answered. lia.
Qed.

(** ** What a person pays *)

Definition same_answer (a b : answer) : {a = b} + {a <> b}.
Proof. repeat decide equality. Defined.

(** The next evaluation: a location, the tick, the rule in force, and whether the input is complete. *)
Record choice := { place : Z; at_tick : Z; epsilon : Q; threshold : Z; complete : bool }.
Definition adversary := list answer -> choice.

(** D has for each location the accepted visits that cover τ. A tick counts what was stamped in its slot or before. *)
Definition count_at (D : Z -> list visit) (c : choice) : option Z :=
  if complete c then Some (count (fun v => stamp v <=? at_tick c) (D (place c))) else None.

Definition lists (somewhere : Z) (a : answer) : bool :=
  match a with Listed listed _ => listed =? somewhere | _ => false end.

Definition at_times (A : adversary) (D : Z -> list visit) : mechanism answer :=
  {| noise_at := fun run => epsilon (A run);
     decide := fun run g =>
       let c := A run in
       step (threshold c) (place c) (existsb (lists (place c)) run) (count_at D c) (Z.of_nat g) |}.

(** A noisy count of the location at which the person was costs its ε. Nothing else costs anything. *)
Definition cost (home : Z) (A : adversary) (run : list answer) (a : answer) : Q :=
  if lists home a then epsilon (A run) else 0.

Section Costs.
  Variables (A : adversary) (D D' : Z -> list visit) (home someone : Z) (most : Q).

  Hypothesis epsilons : forall run, (0 < epsilon (A run) <= most)%Q.
  Hypothesis neighbour : P_neighbour someone (D home) (D' home).
  Hypothesis one_place : forall elsewhere, elsewhere <> home -> D elsewhere = D' elsewhere.

  Lemma noise_is_positive run : (0 < Q2R (epsilon (A run)))%R.
  Proof. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt, epsilons. Qed.

  (** The answer as a function of the sum of the count and the noise. *)
  Definition gives (run : list answer) (a : answer) (z : Z) : bool :=
    if same_answer (step (threshold (A run)) (place (A run)) (existsb (lists (place (A run))) run) (Some z) 0) a
    then true else false.

  Lemma chance_of_sum E run f a p :
    count_at E (A run) = Some f -> answer_chance same_answer (at_times A E) run a p ->
    sum_chance (Q2R (epsilon (A run))) f (gives run a) p.
  Proof.
    unfold answer_chance. simpl. intros ->. apply chance_of_same_event. intros g. unfold gives, step.
    now rewrite Z.add_0_r.
  Qed.

  Lemma answer_costs run a p p' :
    answer_chance same_answer (at_times A D) run a p -> answer_chance same_answer (at_times A D') run a p' ->
    (p <= exp (Q2R (cost home A run a)) * p')%R.
  Proof.
    intros chance_D chance_D'. pose proof (noise_is_positive run) as positive.
    assert (equal : count_at D (A run) = count_at D' (A run) -> (p <= p')%R).
    { unfold answer_chance in *. simpl in *. intros same. rewrite <- same in chance_D'. apply Req_le.
      eapply chance_is_unique; eassumption. }
    assert (free : (p <= p')%R -> (p <= exp (Q2R (cost home A run a)) * p')%R).
    { intros less. apply a_cost_only_helps; [assumption | eapply chance_is_not_negative; eassumption |].
      unfold cost. destruct (lists home a); [apply Qlt_le_weak, epsilons | apply Qle_refl]. }
    unfold count_at in equal. destruct (Z.eq_dec (place (A run)) home) as [here | elsewhere];
      [|apply free, equal; now rewrite (one_place _ elsewhere)].
    destruct (complete (A run)) eqn:is_complete; [|now apply free, equal].
    pose proof (count_falls_by_one_at_most someone (fun v => stamp v <=? at_tick (A run)) _ _ neighbour) as near.
    eapply chance_of_sum in chance_D, chance_D'; try (unfold count_at; now rewrite is_complete, here).
    unfold cost in *. destruct (lists home a) eqn:listed; [eapply higher_count_costs_epsilon; eassumption|].
    apply free. refine (higher_count_makes_safe_rarer _ positive _ _ (gives run a) p p' _ _ chance_D chance_D'); [lia|].
    intros z z' lower. unfold gives, step, answer_sum. rewrite !Z.add_0_r. destruct (existsb _ _); [trivial|].
    destruct (Z.ltb_spec z (threshold (A run))) as [is_safe|].
    - now rewrite (proj2 (Z.ltb_lt z' (threshold (A run)))) by lia.
    - destruct (same_answer _ a) as [<-|]; [|discriminate]. simpl in listed. now rewrite here, Z.eqb_refl in listed.
  Qed.

  (** A location is listed once, so a possible run pays once. *)
  Lemma run_costs run :
    possible (at_times A D) run ->
    (sum_costs (cost home A) run <= most)%Q /\ (existsb (lists home) run = false -> sum_costs (cost home A) run == 0).
  Proof.
    induction run as [|a before IH].
    - intros _. split; [|reflexivity]. apply Qlt_le_weak, Qlt_le_trans with (epsilon (A [])); apply epsilons.
    - intros [earlier [g gives_a]]. destruct (IH earlier) as [bounded nothing]. simpl. unfold cost at 2 4.
      destruct (lists home a) eqn:listed; simpl.
      2: { rewrite Qplus_0_r. now split. }
      split; [|discriminate]. destruct a as [|there z| |]; try discriminate. apply Z.eqb_eq in listed. subst there.
      simpl in gives_a. unfold step, answer_sum in gives_a. destruct (count_at D (A before)); [|discriminate].
      destruct (existsb (lists (place (A before))) before) eqn:unmarked; [discriminate|].
      destruct (_ <? _); [discriminate|].
      injection gives_a as here _. rewrite here in unmarked. rewrite (nothing unmarked), Qplus_0_l. apply epsilons.
  Qed.
End Costs.

(** Promise 12: "For one τ, and visits of one person at one place, the loss of every run is at most the largest ε."
    [D home] and [D' home] are the visits at this place. *)
Theorem designated_time_costs_epsilon A D D' home someone most :
  (forall run, 0 < epsilon (A run) <= most)%Q ->
  P_neighbour someone (D home) (D' home) -> (forall elsewhere, elsewhere <> home -> D elsewhere = D' elsewhere) ->
  forall run p p',
  run_chance same_answer (at_times A D) run p -> run_chance same_answer (at_times A D') run p' ->
  (p <= exp (Q2R most) * p')%R.
Proof.
  intros epsilons neighbour one_place run.
  apply loss_is_at_most with (cost home A); try exact (noise_is_positive A most epsilons).
  - now apply (answer_costs A D D' home someone most).
  - intros run_possible. now apply (run_costs A D home most).
Qed.

(** Promise 12: "A run with T = 1 has the loss ε." One visit and the noisy count 1 reach it. *)
Theorem designated_time_can_cost_epsilon (most : Q) :
  (0 < most)%Q ->
  let A := fun _ => {| place := 0; at_tick := 0; epsilon := most; threshold := 1; complete := true |} in
  let D := fun _ => [{| person := 0; stamp := 0; last := 0 |}] in
  exists p p', run_chance same_answer (at_times A D) [Listed 0 1] p /\
    run_chance same_answer (at_times A (fun _ => [])) [Listed 0 1] p' /\ (0 < p' /\ p = exp (Q2R most) * p')%R.
Proof.
  intros sign A D. assert (positive : (0 < Q2R most)%R) by (rewrite <- RMicromega.Q2R_0; now apply Qlt_Rlt).
  assert (listed : forall n f g, (f + Z.of_nat n = 1)%Z ->
    Nat.eqb n g = if same_answer (step 1 0 false (Some f) (Z.of_nat g)) (Listed 0 1) then true else false).
  { intros n f g equal. unfold step, answer_sum. destruct (Nat.eqb_spec n g) as [<- | different].
    - rewrite equal. reflexivity.
    - destruct (Z.ltb_spec (f + Z.of_nat g) 1); [reflexivity|].
      destruct (same_answer _ _) as [same|]; [injection same; lia | reflexivity]. }
  exists (1 * weight (Q2R most) 0)%R, (1 * weight (Q2R most) 1)%R. split; [|split; [|split]].
  - apply next_answer; [constructor|]. refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ 0)).
    intros g. now apply (listed 0%nat 1).
  - apply next_answer; [constructor|]. refine (chance_of_same_event _ _ _ _ _ (chance_of_one_draw _ 1)).
    intros g. now apply (listed 1%nat 0).
  - rewrite Rmult_1_l. now apply weight_positive.
  - rewrite !Rmult_1_l, (weight_shift (Q2R most) 1 0). simpl. ring.
Qed.
