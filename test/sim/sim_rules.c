// SPDX-License-Identifier: Apache-2.0
#include "sim_world.h"
void history_edited(struct world *w UNUSED, const struct sim_object *o UNUSED)
{
}
void history_deleted(struct world *w UNUSED, const struct sim_object *o UNUSED)
{
}
