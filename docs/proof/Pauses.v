(** * Algorithm 3: pauses *)

From Coq Require Import ZArith QArith List Bool Lia Lqa.
From Kernel Require Import OverTime.
Open Scope Z_scope.

(** Promise 19: "A `paused` answer, with the tick at which it ends, is the same for every count and every noise." The
    marks are published answers. *)
Theorem pause_does_not_depend_on_counts r marks t lost later count noise count' noise' :
  step r marks t count noise lost = Paused later -> step r marks t count' noise' lost = Paused later.
Proof.
  unfold step, answer_sum. destruct (negb _); [trivial|]. destruct count; [|discriminate]. now destruct (_ <? _).
Qed.

Lemma running_mark_is_spent r marks m t :
  (forall m', In m' marks -> 0 <= spent m')%Q -> In m marks -> t <= tick m + lifetime r - 1 ->
  (spent m <= sum_spent (running r marks t))%Q.
Proof.
  unfold running. intros signs found runs.
  assert (rest_sign : forall rest, (forall m', In m' rest -> 0 <= spent m')%Q ->
    (0 <= sum_spent (filter (fun m' => t <=? until m') (map (lengthen r) rest)))%Q).
  { induction rest as [|m' rest IH]; intros rest_signs; [apply Qle_refl|]. simpl.
    pose proof (rest_signs m' (or_introl eq_refl)).
    specialize (IH (fun m0 in_rest => rest_signs m0 (or_intror in_rest))).
    destruct (_ <=? _); [simpl; lra | assumption]. }
  induction marks as [|m' rest IH]; [contradiction|]. simpl. destruct found as [-> | found].
  - rewrite (proj2 (Z.leb_le t _)) by lia. simpl.
    pose proof (rest_sign rest (fun m0 in_rest => signs m0 (or_intror in_rest))). lra.
  - specialize (IH (fun m0 in_rest => signs m0 (or_intror in_rest)) found). pose proof (signs m' (or_introl eq_refl)).
    destruct (_ <=? _); [simpl; lra | assumption].
Qed.

(** Promise 19: "With k = 1, the number after one that has spent ε_l is at least W + F ticks later." *)
Theorem next_number_is_a_lifetime_later r marks m t count noise lost new :
  answers r = 1%positive -> (0 < epsilon r)%Q -> (forall m', In m' marks -> 0 <= spent m')%Q ->
  In m marks -> spent m == epsilon r ->
  step r marks t count noise lost = Noisy new -> tick m + lifetime r <= t.
Proof.
  intros one positive signs found whole. unfold step.
  destruct (may_answer r marks t lost) eqn:allowed; [|discriminate]. intros _.
  unfold may_answer in allowed. rewrite !andb_true_iff in allowed. destruct allowed as [_ enough].
  apply Qle_bool_iff in enough.
  destruct (Z.le_gt_cases (tick m + lifetime r) t) as [|early]; [assumption | exfalso].
  pose proof (running_mark_is_spent r marks m t signs found ltac:(lia)) as least.
  unfold answer_epsilon in enough. rewrite one, Qmult_1_r in enough. lra.
Qed.

(** ** A pause ends at the earliest tick that may answer *)

Lemma latest_before x first ends :
  first <= x -> exists e, In e (first :: ends) /\ e <= x /\ forall e', In e' (first :: ends) -> e' <= x -> e' <= e.
Proof.
  intros reached. induction ends as [|e ends [latest [found [before most]]]].
  - exists first. simpl. repeat split; auto. intros e' [<- | []]. lia.
  - destruct (Z.le_gt_cases e x) as [early | late].
    + exists (Z.max e latest). split; [|split; [lia|]].
      * destruct (Z.max_spec e latest) as [[_ ->] | [_ ->]]; simpl in *; tauto.
      * intros e' [<- | [<- | in_ends]] le; [|lia|]; [specialize (most first) | specialize (most e')]; simpl in most;
          intuition lia.
    + exists latest. split; [simpl in *; tauto | split; [assumption|]].
      intros e' [<- | [<- | in_ends]] le; [apply most; simpl; auto | lia | apply most; simpl; auto].
Qed.

Lemma fold_earliest (allowed : Z -> bool) last ends :
  let earliest := fold_right (fun e best => if allowed e then Z.min e best else best) last ends in
  (earliest = last \/ In earliest ends /\ allowed earliest = true) /\
  forall e, In e ends -> allowed e = true -> earliest <= e.
Proof.
  induction ends as [|e ends [is_allowed least]]; simpl; [intuition|]. destruct (allowed e) eqn:is_e.
  - split.
    + destruct (Z.min_spec e (fold_right (fun e best => if allowed e then Z.min e best else best) last ends))
        as [[_ ->] | [_ ->]]; intuition.
    + intros e' [<- | found] yes; [|specialize (least e' found yes)]; lia.
  - split; [intuition|]. intros e' [<- | found] yes; [congruence | auto].
Qed.

Lemma fold_max first ends e : In e (first :: ends) -> e <= fold_right Z.max first ends.
Proof.
  intros [<- | found]; [induction ends; simpl; lia|].
  induction ends as [|e' ends IH]; [contradiction|]. simpl.
  destruct found as [-> | found]; [lia|]. specialize (IH found). lia.
Qed.

Lemma running_spec r marks t m : In m (running r marks t) <-> In m (map (lengthen r) marks) /\ t <= until m.
Proof. unfold running. now rewrite filter_In, Z.leb_le. Qed.

(** Between the ends of marks, the same marks run. *)
Lemma same_marks_run r marks e x :
  e <= x -> (forall m, In m (running r marks e) -> x <= until m) -> running r marks e = running r marks x.
Proof.
  unfold running. intros le stay. induction (map (lengthen r) marks) as [|m rest IH]; [reflexivity|]. simpl in *.
  destruct (Z.leb_spec e (until m)), (Z.leb_spec x (until m)); try lia; simpl in stay.
  - rewrite IH; auto.
  - specialize (stay m (or_introl eq_refl)). lia.
  - auto.
Qed.

Lemma first_after_is_later marks t : t < first_after marks t.
Proof. unfold first_after. induction marks; simpl; lia. Qed.

Lemma first_after_is_first marks t x : t < x -> (is_after marks x = true <-> first_after marks t <= x).
Proof.
  intros late. unfold is_after, first_after. induction marks as [|m rest IH]; simpl; [intuition lia|].
  rewrite andb_true_iff, IH, Z.ltb_lt. lia.
Qed.

(** The tick that a paused answer states is the first one after [t] that may answer. *)
Lemma pause_ends_as_early_as_possible r marks t lost :
  (0 < epsilon r)%Q ->
  let later := resume_tick r marks t lost in
  t < later /\ may_answer r marks later lost = true /\
  forall x, t < x < later -> may_answer r marks x lost = false.
Proof.
  intros positive. unfold resume_tick.
  set (past := first_after marks t).
  set (first := match lost with None => past | Some l => Z.max past (l + lifetime r) end).
  set (ends := map (fun m => until m + 1) (running r marks first)).
  set (last := fold_right Z.max first (first :: ends)). cbv zeta.
  pose proof (fold_earliest (fun e => may_answer r marks e lost) last (first :: ends)) as [is_allowed least].
  set (later := fold_right _ last (first :: ends)) in *.
  pose proof (first_after_is_later marks t) as past_is_later. fold past in past_is_later.
  assert (past_first : past <= first) by (subst first; destruct lost; lia).
  assert (known : forall x, first <= x -> ledger_is_known r x lost && is_after marks x = true).
  { intros x reached. apply andb_true_iff. split.
    - unfold ledger_is_known. destruct lost; subst first; [apply Z.leb_le; lia | reflexivity].
    - apply (first_after_is_first marks t x); fold past; lia. }
  assert (first_is_later : t < first) by lia.
  assert (at_last : may_answer r marks last lost = true).
  { unfold may_answer. rewrite known by (apply (fold_max first (first :: ends)); simpl; auto). simpl.
    replace (running r marks last) with (@nil mark); [apply Qle_bool_iff; simpl; rewrite Qplus_0_l|].
    - unfold answer_epsilon. rewrite <- (Qmult_1_r (epsilon r)) at 2. rewrite !(Qmult_comm (epsilon r)).
      apply Qmult_le_compat_r; [unfold Qle; simpl; lia | lra].
    - symmetry. destruct (running r marks last) as [|m rest] eqn:some; [reflexivity | exfalso].
      assert (runs : In m (running r marks last)) by (rewrite some; simpl; auto).
      apply running_spec in runs. destruct runs as [is_mark runs].
      assert (reached : first <= last) by (apply (fold_max first (first :: ends)); simpl; auto).
      assert (until m + 1 <= last); [|lia]. apply (fold_max first (first :: ends)). right. right.
      apply (in_map (fun m => until m + 1)), running_spec. split; [assumption | lia]. }
  assert (later_allowed : may_answer r marks later lost = true) by (destruct is_allowed as [-> | [_ yes]]; assumption).
  assert (before_first : forall x, x < first -> t < x -> may_answer r marks x lost = false).
  { intros x early late. unfold may_answer. destruct (Z.ltb_spec x past) as [ahead | reached].
    - destruct (is_after marks x) eqn:all_before; [|now rewrite andb_false_r].
      apply (first_after_is_first marks t x late) in all_before. fold past in all_before. lia.
    - unfold ledger_is_known. subst first. destruct lost; [|lia]. now rewrite (proj2 (Z.leb_gt _ _)) by lia. }
  split; [|split]; [|assumption|].
  - enough (first <= later) by lia. destruct is_allowed as [-> | [[<- | found] _]]; [|lia|].
    + apply (fold_max first (first :: ends)). simpl. auto.
    + apply in_map_iff in found. destruct found as [m [<- runs]]. apply running_spec in runs. lia.
  - intros x [after before]. destruct (may_answer r marks x lost) eqn:allowed; [exfalso | reflexivity].
    destruct (Z.le_gt_cases first x) as [reached | early]; [|rewrite before_first in allowed; [discriminate | lia..]].
    destruct (latest_before x first ends reached) as [e [found [le most]]].
    assert (first <= e) by (apply most; simpl; auto).
    assert (same : may_answer r marks e lost = true).
    { unfold may_answer in *. rewrite known in * by lia. rewrite (same_marks_run r marks e x); [assumption..|].
      intros m runs. apply running_spec in runs. destruct runs as [is_mark runs].
      destruct (Z.le_gt_cases x (until m)) as [|ended]; [assumption|]. specialize (most (until m + 1)).
      assert (until m + 1 <= e); [|lia]. apply most; [right | lia].
      apply (in_map (fun m => until m + 1)), running_spec. split; [assumption | lia]. }
    specialize (least e found same). lia.
Qed.
