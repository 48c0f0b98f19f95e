// The permissions of this page's key, so that the page offers only what the key allows.

import { ask } from "./api.js";

/**
 * The caller: `maySubmit`; `member` if it is a token that only submits for this member, and reads
 * nothing; `boards`, the patterns of the boards it may use, null for all; `administers`: whether it
 * may see payouts, reasons and hidden members, and may moderate.
 */
async function me(signal) {
  const { scope, member, boards } = await ask("/v1/me", { signal });
  return { maySubmit: scope !== "read", member, boards, administers: scope === "admin" };
}

/** Returns the caller and the answer to `question`, which is null if the caller may read nothing. */
export async function callerAnd(question, signal) {
  const answer = question();
  answer.catch(() => {}); // it is awaited below, unless the caller is refused first
  const caller = await me(signal);
  return [caller, caller.member === null ? await answer : null];
}
