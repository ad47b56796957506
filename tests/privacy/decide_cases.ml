(* Reads cases (integers) from the standard input and decides them with the program that Coq extracts from docs/proof.
   tests/privacy/test_proof.py writes the cases and reads the answers. The number -1 stands for "none". *)

open Kernel

let rec positive_of n = if n = 1 then XH else if n land 1 = 1 then XI (positive_of (n / 2)) else XO (positive_of (n / 2))
let z_of n = if n = 0 then Z0 else if n > 0 then Zpos (positive_of n) else Zneg (positive_of (-n))
let rec int_of_positive = function XH -> 1 | XO p -> 2 * int_of_positive p | XI p -> (2 * int_of_positive p) + 1
let int_of = function Z0 -> 0 | Zpos p -> int_of_positive p | Zneg p -> -int_of_positive p

let read () = Scanf.scanf " %d" Fun.id
let read_z () = z_of (read ())
let read_optional () = match read () with -1 -> None | n -> Some (z_of n)
let read_fraction () = let top = read_z () in { qnum = top; qden = positive_of (read ()) }

let read_mark () =
  let tick = read_z () in
  let spent = read_fraction () in
  { tick; noisy_count = Z0; spent; until = read_z () }

let write_fraction q = let q = qred q in Printf.sprintf "%d/%d" (int_of q.qnum) (int_of_positive q.qden)

let over_time () =
  let epsilon = read_fraction () in
  let answers = positive_of (read ()) in
  let threshold = read_z () in
  let window = read_z () in
  let rule = { epsilon; answers; threshold; window; max_lead = read_z () } in
  let tick = read_z () in
  let count = read_optional () in
  let noise = read_z () in
  let lost = read_optional () in
  let marks = List.init (read ()) (fun _ -> read_mark ()) in
  let answer = over_time_step rule marks tick count noise lost in
  (match answer with
   | Safe -> print_string "safe"
   | Unknown -> print_string "unknown"
   | Paused resumes -> Printf.printf "paused %d" (int_of resumes)
   | Noisy m ->
       Printf.printf "noisy_count %d %d %s %d" (int_of m.tick) (int_of m.noisy_count) (write_fraction m.spent) (int_of m.until));
  (match answer, over_time_count_start rule marks tick with
   | (Safe | Noisy _), Some start -> Printf.printf " since %d" (int_of start)
   | _ -> ());
  List.iter (fun m -> Printf.printf " %d-%d" (int_of m.tick) (int_of m.until)) (over_time_running rule marks tick)

let at_times () =
  let threshold = read_z () in
  let marked = read () = 1 in
  let count = read_optional () in
  match at_times_step threshold Z0 marked count (read_z ()) with
  | Listed (_, noisy_count) -> print_int (int_of noisy_count)
  | _ -> print_string "-"

let read_number () =
  let drawn_at = read_z () in
  { drawn_at; charged = read_fraction () }

let numbers () =
  let epsilon = read_fraction () in
  let answers = positive_of (read ()) in
  let tick = read_z () in
  let known = List.init (read ()) (fun _ -> read_number ()) in
  print_string (if at_times_may_answer epsilon answers known tick then "may" else "marked");
  match at_times_count_start known with Some start -> Printf.printf " %d" (int_of start) | None -> ()

let payment () =
  let answers = read_z () in
  let window = read_z () in
  let max_lead = read_z () in
  print_int (int_of (compute_most_answers answers window max_lead (read_z ())))

let () =
  try
    while true do
      (match read () with 0 -> over_time () | 1 -> at_times () | 2 -> payment () | _ -> numbers ());
      print_char (Char.chr 10)
    done
  with End_of_file | Scanf.Scan_failure _ -> ()
