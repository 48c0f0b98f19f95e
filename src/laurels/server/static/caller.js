// The permissions of this page's key, so that the page offers only what the key allows.

import { ask } from "./api.js";

/**
 * The caller: `maySubmit`, and `member` if it may submit for that member only; `administers`: whether
 * it may see payouts, reasons and hidden members, and may moderate.
 */
export async function me(signal) {
  const caller = await ask("/v1/me", { signal });
  return { maySubmit: caller.scope !== "read", member: caller.member, administers: caller.scope === "admin" };
}
