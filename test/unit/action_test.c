// SPDX-License-Identifier: Apache-2.0
#include "flow/action.c"

#include "tap.h"

int main(void)
{
    for (int cls = -1; cls >= E_CLASS_LAST; cls--) {
        const struct action_row *a = action_of(cls);
        ok(a->cls == cls, "%s has a row", err_word(cls));
        ok(a->reason[0] >= 'A' && a->reason[0] <= 'Z' && strpbrk(a->reason, " -_") == NULL, "%s: the reason %s is a CamelCase word",
           err_word(cls), a->reason);
    }
    is_int(action_of(E_INVAL)->action, ACT_GIVE_UP, "a wrong spec waits for a change");
    is_int(action_of(E_TERMINAL)->action, ACT_GIVE_UP, "so does what cannot work again");
    is_int(action_of(E_NOSPC)->action, ACT_RETRY, "a full disk is tried again");
    is_int(action_of(E_BUSY)->action, ACT_WAIT, "who was asked to come back comes back");
    is_int(action_of(12345)->action, ACT_RETRY, "an unknown class is tried again, never dropped");
    return done_testing();
}
